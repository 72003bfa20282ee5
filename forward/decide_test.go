package forward

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

var origin = Origin{Jobd: "jobd-1", Machine: "machine-1"}

// job changes a Job.
type change func(*batchv1.Job)

// here returns a Job that is to be forwarded.
func here(changes ...change) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j", UID: "here", ResourceVersion: "1"},
		Spec: batchv1.JobSpec{
			ManagedBy: ptr.To(clusters.Manager("prod")), Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1),
			TTLSecondsAfterFinished: ptr.To[int32](60),
			Template:                corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		},
	}
	for _, c := range changes {
		c(j)
	}
	return j
}

// held: it has been taken, and nothing more is known.
func held(j *batchv1.Job) {
	j.Finalizers = append(j.Finalizers, clusters.Finalizer)
	metav1.SetMetaDataAnnotation(&j.ObjectMeta, clusters.RecordAnnotation, clusters.Record{Job: j.UID, Namespace: "default"}.Annotation())
}

// made: it is known that it was made.
func made(j *batchv1.Job) {
	held(j)
	metav1.SetMetaDataAnnotation(&j.ObjectMeta, clusters.RecordAnnotation, clusters.Record{Job: j.UID, Namespace: "default", UID: "there"}.Annotation())
}

// astray: its record names another namespace there than the one in which it is to be made.
func astray(j *batchv1.Job) {
	held(j)
	metav1.SetMetaDataAnnotation(&j.ObjectMeta, clusters.RecordAnnotation, clusters.Record{Job: j.UID, Namespace: "other"}.Annotation())
}

// elsewhere: its record has a cluster and a machine.
func elsewhere(cluster types.UID, machine string) change {
	return func(j *batchv1.Job) {
		record := clusters.RecordOf(j)
		record.Cluster, record.Machine = cluster, machine
		j.Annotations[clusters.RecordAnnotation] = record.Annotation()
	}
}

func deleted(j *batchv1.Job)   { j.DeletionTimestamp = &metav1.Time{Time: now} }
func suspended(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }
func resumed(j *batchv1.Job)   { j.Spec.Suspend = ptr.To(false) }
func wider(j *batchv1.Job)     { j.Spec.Parallelism = ptr.To[int32](5) }
func queued(j *batchv1.Job)    { metav1.SetMetaDataLabel(&j.ObjectMeta, batch.KueueLabel, "q") }

func finalizer(name string) change {
	return func(j *batchv1.Job) { j.Finalizers = append(j.Finalizers, name) }
}

func version(to string) change { return func(j *batchv1.Job) { j.ResourceVersion = to } }

func uid(to types.UID) change { return func(j *batchv1.Job) { j.UID = to } }

func started(at time.Time) change {
	return func(j *batchv1.Job) { j.Status.StartTime = &metav1.Time{Time: at}; j.Status.Active = 1 }
}

func with(t batchv1.JobConditionType, reason string) change {
	return func(j *batchv1.Job) { setCondition(&j.Status, t, reason, "", now) }
}

func ended(j *batchv1.Job) {
	started(now)(j)
	j.Status.Active = 0
	with(batchv1.JobFailureTarget, "x")(j)
	with(batchv1.JobFailed, "x")(j)
}

// there returns the Job that was made of one here.
func there(of *batchv1.Job, changes ...change) *batchv1.Job {
	r := Copy(of, "default", origin)
	r.UID = "there"
	for _, c := range changes {
		c(r)
	}
	return r
}

func TestDecide(t *testing.T) {
	foreign := func(j *batchv1.Job) { j.Labels = nil }
	other := func(j *batchv1.Job) { j.Labels[clusters.OriginLabel] = "jobd-2" }
	refused, taken := with(clusters.NotForwarded, clusters.ReasonRefused), with(clusters.NotForwarded, clusters.ReasonNameTaken)
	foregrounds := finalizer(metav1.FinalizerDeleteDependents)
	const cluster = "cluster-1" // which is reached
	home, away, copied := elsewhere(cluster, origin.Machine), elsewhere("cluster-2", origin.Machine), elsewhere(cluster, "machine-2")
	former := func(j *batchv1.Job) { j.Labels[clusters.OriginUIDLabel] = "before" }
	for _, c := range []struct {
		name   string
		local  *batchv1.Job
		remote *batchv1.Job
		silent time.Duration
		want   Step
		again  time.Duration
	}{
		{"it is gone", nil, nil, 0, Nothing, 0},
		{"it is new", here(), nil, 0, Take, 0},
		{"it is new, and the cluster does not answer", here(), nil, time.Hour, Take, 0},
		{"it ended before it was taken", here(ended), nil, 0, Nothing, 0},
		{"it is deleted before it was taken", here(deleted), nil, 0, Nothing, 0},
		{"it is taken", here(held, home), nil, 0, Create, 0},
		{"it was taken while the cluster did not answer", here(held), nil, 0, Take, 0},
		{"it may have been made in another cluster", here(held, away), nil, 0, TellElsewhere, retaken},
		{"it may have been made in another cluster, which is said", here(held, away, with(clusters.Unreachable, clusters.ReasonOtherCluster)), nil, 0,
			Nothing, retaken},
		{"it may have been made in another cluster, which did not answer", here(held, away, with(clusters.Unreachable, "NoAnswer")), nil, 0,
			TellElsewhere, retaken},
		{"it may have been made in another namespace of another cluster", here(astray, away), nil, 0, TellElsewhere, retaken},
		{"it was made in another cluster", here(made, away), nil, 0, TellElsewhere, retaken},
		{"it was made in another cluster, and has ended", here(made, away, ended), nil, 0, Nothing, 0},
		{"it was made in another cluster, and is deleted", here(made, away, deleted), nil, 0, TellElsewhere, retaken},
		{"it was made in another cluster, has ended, and is deleted", here(made, away, ended, deleted), nil, 0, Release, 0},
		{"it was made here, as it is known again", here(made, away), there(here(), started(now)), 0, Bring, 0},
		{"another cluster has a predecessor", here(held, away), there(here(), former), 0, TellElsewhere, retaken},
		{"a copy of this machine has it", here(made, copied), there(here(), started(now)), 0, TellElsewhere, retaken},
		{"a copy of this machine has it, and it is suspended here", here(made, copied, suspended), there(here()), 0, TellElsewhere, retaken},
		{"a copy of this machine has it, and it is deleted here", here(made, copied, deleted), there(here()), 0, TellElsewhere, retaken},
		{"a copy of this machine has it, and it has ended here", here(made, copied, ended), there(here(), started(now)), 0, Nothing, 0},
		{"a copy of this machine has it, and it has ended, and is deleted here", here(made, copied, ended, deleted), there(here()), 0, Release, 0},
		{"a copy of this machine was about to make it", here(held, copied), nil, 0, TellElsewhere, retaken},
		{"somebody has given it to this machine", here(finalizer(clusters.Finalizer)), there(here()), 0, Adopt, 0},
		{"its record is spoiled", here(finalizer(clusters.Finalizer)), nil, 0, Take, 0},
		{"it was made, and that was not recorded", here(held), there(here()), 0, Adopt, 0},
		{"its record is spoiled, and it was made", here(finalizer(clusters.Finalizer)), there(here()), 0, Adopt, 0},
		{"it was to be made in another namespace", here(astray), nil, 0, Take, 0},
		{"it was made in another namespace, and that was not recorded", here(astray), there(here()), 0, Adopt, 0},
		{"it was to be made in another namespace, where somebody else has the name", here(astray), there(here(), foreign), 0, Take, 0},
		{"somebody else has the name", here(held, home), there(here(), foreign), 0, TellTaken, retaken},
		{"another jobd has the name", here(held, home), there(here(), other), 0, TellTaken, retaken},
		{"somebody else has the name, which is said", here(held, home, taken), there(here(), foreign), 0, Nothing, retaken},
		{"it was refused before somebody else had the name", here(held, home, refused), there(here(), foreign), 0, TellTaken, retaken},
		{"its predecessor is still there", here(held, home), there(here(), former), 0, Sweep, removal},
		{"its predecessor is going", here(held, home), there(here(), former, deleted), 0, Nothing, removal},
		{"it was removed there", here(made), nil, 0, Fail, 0},
		{"it was removed there, and another has the name", here(made), there(here(), foreign), 0, Fail, 0},
		{"it was removed there, and a copy has the name", here(made), there(here(), uid("copy")), 0, Fail, 0},
		{"it was removed there after it had ended", here(made, ended), nil, 0, Nothing, 0},
		{"it is being removed there by somebody", here(made), there(here(), deleted), 0, Nothing, 0},
		{"nothing is new", here(made), there(here()), 0, Nothing, 0},
		{"it runs there", here(made), there(here(), started(now)), 0, Bring, 0},
		{"it has ended there", here(made, started(now)), there(here(), ended), 0, Bring, 0},
		{"it has ended", here(made, ended), there(here(), ended), 0, Nothing, 0},
		{"it has ended, and runs there again", here(made, ended), there(here(), started(now)), 0, Remove, 0},
		{"it has ended, runs there again, and is being removed", here(made, ended), there(here(), started(now), deleted), 0, Nothing, 0},
		{"it has ended otherwise there", here(made, ended), there(here(), with(batchv1.JobComplete, "x")), 0, Nothing, 0},
		{"it has ended, and more is known there", here(made, ended), there(here(), ended, func(j *batchv1.Job) { j.Status.Failed = 1 }), 0, Bring, 0},
		{"it is suspended", here(made, suspended), there(here()), 0, Pass, 0},
		{"it is being suspended there", here(made, suspended), there(here(suspended), started(now)), 0, Nothing, 0},
		{"it is suspended there", here(made, suspended), there(here(suspended), started(now), with(batchv1.JobSuspended, "")), 0, Bring, 0},
		{"it has ended before it was suspended there", here(made, suspended), there(here(suspended), ended), 0, Bring, 0},
		{"Kueue lets it go on there", here(made, suspended), there(here(suspended), resumed, started(now)), 0, Bring, 0},
		{"Kueue suspends it there", here(made), there(here(), suspended), 0, Nothing, 0},
		{"it is wider", here(made, wider), there(here()), 0, Pass, 0},
		{"it is wider after it has ended there", here(made, wider), there(here(), ended), 0, Bring, 0},
		{"its TTL has changed", here(made, func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = nil }), there(here()), 0, Nothing, 0},
		{"it is deleted", here(made, deleted), there(here()), 0, Remove, 0},
		{"it is deleted and being removed", here(made, deleted), there(here(), deleted), 0, Release, 0},
		{"it is deleted in the foreground, and being removed", here(made, deleted, foregrounds), there(here(), deleted), 0, Nothing, removal},
		{"it is deleted and removed", here(made, deleted), nil, 0, Release, 0},
		{"it is deleted, and was made unrecorded", here(held, deleted), there(here()), 0, Remove, 0},
		{"it is deleted, and somebody else has the name", here(held, deleted), there(here(), foreign), 0, Release, 0},
		{"it is deleted after it was removed there, and another has the name", here(made, deleted), there(here(), foreign), 0, Release, 0},
		{"the cluster does not answer", here(made), nil, patience - time.Second, Nothing, time.Second},
		{"the cluster does not answer for long", here(made), nil, patience, TellUnreachable, 0},
		{"the cluster does not answer, which is said", here(made, with(clusters.Unreachable, "")), nil, time.Hour, Nothing, 0},
		{"the cluster does not answer, and it has ended", here(made, ended), nil, time.Hour, Nothing, 0},
		{"it is deleted, and the cluster does not answer", here(made, deleted), nil, time.Hour, TellUnreachable, 0},
		{"the cluster answers again", here(made, with(clusters.Unreachable, "")), there(here()), 0, Bring, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Seen{Local: c.local, Remote: c.remote, Namespace: "default", Origin: origin, Cluster: cluster}
			if c.silent > 0 {
				s.Silent = now.Add(-c.silent)
			}
			step, again := Decide(s, now)
			if step != c.want || again.IsZero() != (c.again == 0) || c.again != 0 && !again.Equal(now.Add(c.again)) {
				t.Errorf("%s, again at %v; want %s, %v", step, again, c.want, c.again)
			}
		})
	}
}

func TestCopy(t *testing.T) {
	l := here(made, func(j *batchv1.Job) {
		j.Labels = map[string]string{"team": "a", batchv1.JobNameLabel: "j"}
		j.Annotations["jobd.dev/window"] = "22:00-06:00"
		j.Spec.Selector = &metav1.LabelSelector{}
		j.Spec.Template.Labels = map[string]string{batchv1.ControllerUidLabel: "here", "app": "x"}
	})
	r := Copy(l, "team-a", origin)
	marks := map[string]string{
		clusters.OriginLabel: string(origin.Jobd), clusters.OriginUIDLabel: "here", clusters.MachineLabel: origin.Machine,
	}
	if r.Name != "j" || r.Namespace != "team-a" || r.Spec.ManagedBy != nil || r.Spec.TTLSecondsAfterFinished != nil || r.Spec.Selector != nil ||
		len(r.Finalizers) > 0 || r.Labels["team"] != "a" || len(r.Labels) != 4 || len(r.Spec.Template.Labels) != 4 || r.Spec.Template.Labels["app"] != "x" ||
		r.Annotations[clusters.NamespaceAnnotation] != "default" || r.Annotations[clusters.RecordAnnotation] != "" || r.Annotations["jobd.dev/window"] == "" {
		t.Errorf("got %+v", r)
	}
	for name, value := range marks {
		if r.Labels[name] != value || r.Spec.Template.Labels[name] != value {
			t.Errorf("label %s: %q, %q", name, r.Labels[name], r.Spec.Template.Labels[name])
		}
	}
	if l.Labels[batchv1.JobNameLabel] == "" || l.Spec.Template.Labels[batchv1.ControllerUidLabel] == "" {
		t.Error("the Job here was changed")
	}
}

func TestChanges(t *testing.T) {
	longer := func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](60) }
	retemplated := func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{"a": "b"} }
	for _, c := range []struct {
		name          string
		local, remote *batchv1.Job
		spec, ignored string
	}{
		{"nothing", here(), there(here()), "{}", "null"},
		{"suspend", here(suspended), there(here()), `{"suspend":true}`, "null"},
		{"resume", here(), there(here(suspended)), `{"suspend":false}`, "null"},
		{"resume in a queue of Kueue", here(), there(here(suspended), queued), `{}`, `["spec.suspend: Kueue decides there when it goes on"]`},
		{"suspend in a queue of Kueue", here(suspended), there(here(), queued), `{"suspend":true}`, "null"},
		{"Kueue has suspended it, and nothing was changed here", here(), there(here(), queued, suspended), "{}", "null"},
		{"wider", here(wider), there(here()), `{"parallelism":5}`, "null"},
		{"the cluster has made it wider", here(), there(here(), wider), "{}", "null"},
		{"a deadline", here(longer), there(here()), `{"activeDeadlineSeconds":60}`, "null"},
		{"no deadline any more", here(), there(here(longer)), `{"activeDeadlineSeconds":null}`, "null"},
		{"another template", here(retemplated), there(here()), `{}`, `["spec.template: it was made there as it was before"]`},
		{"somebody has removed what was sent", here(suspended), there(here(), func(j *batchv1.Job) { j.Annotations = nil }), "{}", "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, ignored := Changes(c.local, c.remote)
			if text(spec) != c.spec || text(ignored) != c.ignored {
				t.Errorf("%s, ignored %s; want %s, %s", text(spec), text(ignored), c.spec, c.ignored)
			}
		})
	}
}
