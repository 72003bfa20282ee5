package jobset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
)

// world carries decisions out for one JobSet.
type world struct {
	t     *testing.T
	js    *jobsetv1.JobSet
	jobs  map[string]*batchv1.Job // that are there, by name
	r     *Record
	now   time.Time
	batch int
	made  int
	tell  func(string) // what is decided
	gone  bool
}

func newWorld(t *testing.T, spec string, tell func(string)) *world {
	w := &world{t: t, jobs: map[string]*batchv1.Job{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), batch: 100, tell: tell}
	w.js = &jobsetv1.JobSet{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n", UID: "u"}}
	w.edit(spec)
	for i := range w.js.Spec.ReplicatedJobs {
		template := &w.js.Spec.ReplicatedJobs[i].Template.Spec
		template.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
	}
	k := jobset.Kind()
	k.Default(w.js)
	if errs := k.Strategy.Validate(t.Context(), w.js); len(errs) > 0 {
		t.Fatal(errs)
	}
	w.restart()
	w.settle()
	return w
}

func (w *world) edit(spec string) {
	w.t.Helper()
	if err := yaml.UnmarshalStrict([]byte(spec), &w.js.Spec); err != nil {
		w.t.Fatalf("%s: %v", spec, err)
	}
}

// restart makes the record anew, as a new daemon does.
func (w *world) restart() {
	w.r = NewRecord(w.js)
	for _, j := range w.jobs {
		w.r.SetJob(j)
	}
}

// settle decides until nothing more follows.
func (w *world) settle() {
	w.t.Helper()
	for n := 0; !w.gone; n++ {
		d := Decide(w.js, w.r, w.now, w.batch)
		w.carryOut(d)
		if !d.More {
			if !d.Wake.IsZero() {
				w.tell("look again in " + d.Wake.Sub(w.now).String())
			}
			return
		}
		if n > 1000 {
			w.t.Fatal("the decisions have no end")
		}
	}
}

func (w *world) carryOut(d Decision) {
	w.t.Helper()
	for _, j := range d.Delete {
		w.tell("delete " + j.Name)
		job := w.jobs[j.Name]
		if job.UID != j.UID || job.DeletionTimestamp != nil {
			w.t.Errorf("it deletes %s, which is not there, or being deleted", j.Name)
		}
		job.DeletionTimestamp = &metav1.Time{Time: w.now}
		w.r.SetJob(job)
	}
	for _, n := range d.Create {
		j := jobset.NewJob(w.js, &w.js.Spec.ReplicatedJobs[n.Group], n.Index)
		if w.jobs[j.Name] != nil {
			w.t.Errorf("it creates %s for the second time", j.Name)
		}
		batch.SetJobDefaults(j)
		w.made++
		j.UID, j.CreationTimestamp = types.UID(fmt.Sprint("uid", w.made)), metav1.NewTime(w.now)
		w.jobs[j.Name] = j
		word := "create "
		if *j.Spec.Suspend {
			word = "create suspended "
		}
		w.tell(word + j.Name + ", attempt " + j.Labels[jobset.RestartAttemptKey])
		w.r.SetJob(j)
	}
	for _, ref := range d.Suspend {
		w.tell("suspend " + ref.Name)
		if !Suspend(w.jobs[ref.Name]) {
			w.t.Errorf("%s is suspended for the second time", ref.Name)
		}
		w.r.SetJob(w.jobs[ref.Name])
	}
	for _, ref := range d.Resume {
		w.tell("resume " + ref.Name)
		if !Resume(w.jobs[ref.Name], jobset.Find(w.js, ref.Group)) {
			w.t.Errorf("%s is resumed for the second time", ref.Name)
		}
		w.r.SetJob(w.jobs[ref.Name])
	}
	for _, ref := range d.Pause {
		word := "continue "
		if _, paused := jobset.Paused(w.js); paused {
			word = "pause "
		}
		w.tell(word + ref.Name)
		if !Pause(w.jobs[ref.Name], w.js) {
			w.t.Errorf("%s is that for the second time", ref.Name)
		}
		w.r.SetJob(w.jobs[ref.Name])
	}
	for _, e := range d.Events {
		w.tell(fmt.Sprintf("event %s %s: %s", e.Type, e.Reason, e.Message))
	}
	if d.Changed {
		w.js.Status = *d.Status.DeepCopy()
		w.tell("status " + sum(&w.js.Status))
	}
	if d.Expired {
		w.tell("delete the JobSet")
		w.gone = true
	}
}

// sum says what is in a status, in one line.
func sum(s *jobsetv1.JobSetStatus) string {
	var parts []string
	for _, g := range s.ReplicatedJobsStatus {
		var counts []string
		for _, c := range []struct {
			name string
			n    int32
		}{{"ready", g.Ready}, {"succeeded", g.Succeeded}, {"failed", g.Failed}, {"active", g.Active}, {"suspended", g.Suspended}} {
			if c.n > 0 {
				counts = append(counts, fmt.Sprintf("%d %s", c.n, c.name))
			}
		}
		if len(counts) > 0 {
			parts = append(parts, g.Name+": "+strings.Join(counts, ", "))
		}
	}
	if s.Restarts > 0 {
		parts = append(parts, fmt.Sprintf("restarts %d, %d counted", s.Restarts, s.RestartsCountTowardsMax))
	}
	for _, c := range s.Conditions {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", c.Type, c.Status, c.Reason))
	}
	if s.TerminalState != "" {
		parts = append(parts, "it is "+s.TerminalState)
	}
	return strings.Join(parts, "; ")
}

// change folds in that a Job has changed.
func (w *world) change(name string, change func(*batchv1.Job)) {
	w.t.Helper()
	j := w.jobs[name]
	if j == nil {
		w.t.Fatalf("there is no Job %s, but %v", name, slices.Sorted(maps.Keys(w.jobs)))
	}
	change(j)
	w.r.SetJob(j)
}

func (w *world) ready(j *batchv1.Job) {
	j.Status.Active = *j.Spec.Parallelism
	j.Status.Ready = ptr.To(*j.Spec.Parallelism)
}

func (w *world) end(j *batchv1.Job, as batchv1.JobConditionType, reason, message string) {
	j.Status = batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
		Type: as, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(w.now),
	}}}
	if as == batchv1.JobComplete {
		j.Status.Succeeded = *j.Spec.Completions
	}
}

// leave takes in that a Job is gone.
func (w *world) leave(name string) {
	j := w.jobs[name]
	delete(w.jobs, name)
	w.r.DropJob(j.UID)
}
