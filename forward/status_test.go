package forward

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
)

// accepts fails unless the rules for the status of a Job that another controller manages let it become so.
func accepts(t *testing.T, l *batchv1.Job, s batchv1.JobStatus) *batchv1.Job {
	t.Helper()
	next := l.DeepCopy()
	next.Status = s
	if errs := batch.JobKind().Subresources["status"].ValidateUpdate(t.Context(), next, l); len(errs) > 0 {
		t.Errorf("%+v after %+v: %v", s, l.Status, errs)
	}
	return next
}

func TestStatuses(t *testing.T) {
	later := now.Add(time.Minute)
	for _, c := range []struct {
		name   string
		local  *batchv1.Job
		remote *batchv1.Job
		writes int
		same   bool // in the end it is that of the one there
	}{
		{"nothing is new", here(started(now)), there(here(), started(now)), 0, true},
		{"it has started", here(), there(here(), started(now)), 1, true},
		{"it has ended unseen", here(), there(here(), ended), 1, true},
		{"what the forwarder has said is over", here(started(now), with(clusters.Unreachable, "")), there(here(), started(now)), 1, true},
		{"it was suspended and resumed", here(started(now)), there(here(), started(later)), 2, true},
		{"it was suspended, resumed, and has ended", here(started(now)), there(here(), ended, started(later)), 2, true},
		{"it is suspended there, and has no start time any more", here(started(now)), there(here(), with(batchv1.JobSuspended, "")), 1, false},
		{"it is resumed there", here(started(now), with(batchv1.JobSuspended, "")), there(here(), started(later)), 1, true},
		{"Kueue lets it go on there", here(suspended, with(batchv1.JobSuspended, "")), there(here(suspended), resumed, started(now)), 1, true},
		{"Kueue lets it go on there again", here(suspended, started(now)), there(here(suspended), resumed, started(later)), 1, true},
		{"it is suspended, here too", here(suspended, started(now)), there(here(suspended), with(batchv1.JobSuspended, "")), 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.remote.Status.Active = 0
			c.local.Status.Active = 0
			all := Statuses(c.local, c.remote, now)
			if len(all) != c.writes {
				t.Fatalf("%d writes: %+v", len(all), all)
			}
			l := c.local
			for _, s := range all {
				l = accepts(t, l, s)
			}
			if same := text(l.Status) == text(c.remote.Status); same != c.same {
				t.Errorf("got  %s\nthere %s", text(l.Status), text(c.remote.Status))
			}
			if more := Statuses(l, c.remote, now); len(more) > 0 {
				t.Errorf("and then %+v", more)
			}
		})
	}
}

func TestLost(t *testing.T) {
	criteria := with(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached)
	for name, c := range map[string]struct {
		local *batchv1.Job
		end   batchv1.JobConditionType
	}{
		"it never started":      {here(), batchv1.JobFailed},
		"it ran":                {here(started(now.Add(-time.Hour))), batchv1.JobFailed},
		"it was about to fail":  {here(started(now), with(batchv1.JobFailureTarget, "x")), batchv1.JobFailed},
		"it was about to be so": {here(started(now.Add(time.Hour)), criteria), batchv1.JobComplete},
		"it was unreachable":    {here(started(now), with(clusters.Unreachable, "")), batchv1.JobFailed},
	} {
		t.Run(name, func(t *testing.T) {
			l := accepts(t, c.local, lost(c.local, "prod", now))
			if end := batch.End(&l.Status); end == nil || end.Type != c.end || end.Reason != clusters.ReasonRemoteJobDeleted {
				t.Errorf("got %+v", l.Status.Conditions)
			}
			if is(l, clusters.Unreachable) {
				t.Error("it is still unreachable")
			}
		})
	}
}

func TestSaying(t *testing.T) {
	l := here(started(now), with(clusters.NotForwarded, clusters.ReasonRefused), with("x/y", ""))
	s := saying(l, clusters.NotForwarded, clusters.ReasonNameTaken, "m", now.Add(time.Minute))
	if len(s.Conditions) != 2 || s.Conditions[0].Type != "x/y" || s.Conditions[1].Reason != clusters.ReasonNameTaken {
		t.Errorf("got %+v", s.Conditions)
	}
	accepts(t, l, s)
	l.Status = s
	if again := saying(l, clusters.NotForwarded, clusters.ReasonNameTaken, "other", now.Add(time.Hour)); len(again.Conditions) != 2 ||
		!again.Conditions[1].LastTransitionTime.Equal(&metav1.Time{Time: now.Add(time.Minute)}) || again.Conditions[1].Message != "other" {
		t.Errorf("again %+v", again.Conditions)
	}
}

func TestMirror(t *testing.T) {
	l := here(func(j *batchv1.Job) {
		j.Spec.Template.Spec.ServiceAccountName, j.Spec.Template.Spec.PriorityClassName = "runner", "high"
		j.Spec.Template.Annotations = map[string]string{"a": "b"}
	})
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "j-0-abc", Namespace: "team-a", Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: "0", "cni": "x"},
			Labels: map[string]string{batchv1.ControllerUidLabel: "there", batchv1.JobNameLabel: "j", clusters.OriginLabel: "o"},
		},
		Spec: corev1.PodSpec{NodeName: "node-7"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, NominatedNodeName: "n", Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		}},
	}
	m := Mirror(l, p, "prod")
	if m.Namespace != "default" || m.Spec.NodeName != "prod" || m.Spec.ServiceAccountName != "" || m.Spec.PriorityClassName != "" || !isMirror(m, l, "prod") ||
		m.Labels[batchv1.ControllerUidLabel] != "here" || m.Labels[clusters.OriginLabel] != "" || len(m.Annotations) != 2 || m.Annotations["a"] != "b" {
		t.Errorf("got %+v", m)
	}
	if isMirror(m, l, "other") || isMirror(m, here(uid("another")), "prod") {
		t.Error("it is taken for one of another")
	}
	waits := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}
	m.Status = corev1.PodStatus{QOSClass: corev1.PodQOSBestEffort, Conditions: []corev1.PodCondition{waits}}
	out, differs := mirrored(m, p)
	if s := out.Status; !differs || s.Phase != corev1.PodRunning || s.QOSClass != corev1.PodQOSBestEffort || s.NominatedNodeName != "" ||
		len(s.Conditions) != 2 || s.Conditions[0] != waits {
		t.Errorf("%v, got %+v", differs, s)
	}
	if _, differs := mirrored(out, p); differs {
		t.Error("it differs again")
	}
}
