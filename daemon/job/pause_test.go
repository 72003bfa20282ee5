package job

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
)

// pause pauses the Job of a world, or continues it.
func (w *world) pause(pause bool) {
	w.edit(func(j *batchv1.Job) {
		if pause {
			metav1.SetMetaDataAnnotation(&j.ObjectMeta, batch.PausedAnnotation, w.now.Format(time.RFC3339))
		} else {
			delete(j.Annotations, batch.PausedAnnotation)
		}
	})
	w.settle()
}

func TestPausedTimeDoesNotCount(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](60) })
	start := w.job.Status.StartTime
	failed := func() bool { return standing(w.job.Status.Conditions, batchv1.JobFailureTarget) != nil }
	w.pass(50 * time.Second)
	w.pause(true)
	w.pass(time.Hour)
	if failed() || !w.record.Paused() || !w.record.Deadline().IsZero() {
		t.Fatalf("the deadline does not stand still: %s", w.conditions())
	}
	w.record = w.rebuilt() // a restart
	w.settle()
	w.pass(time.Hour)
	w.pause(false)
	if d := batch.PausedFor(w.job.Annotations); d != 2*time.Hour || !w.job.Status.StartTime.Equal(start) {
		t.Errorf("paused for %s, started at %s", d, w.job.Status.StartTime)
	}
	w.pass(9 * time.Second)
	if failed() {
		t.Errorf("it ends too early: %s", w.conditions())
	}
	w.pass(time.Second)
	if !failed() {
		t.Errorf("it does not end: %s", w.conditions())
	}
}

func TestAPausedJobCreatesNothing(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = ptr.To[int32](2), ptr.To[int32](4) })
	n := len(w.created)
	w.pause(true)
	w.edit(func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](4) })
	w.settle()
	w.pass(time.Hour)
	if len(w.created) != n || len(w.removed) > 0 {
		t.Errorf("%d pods instead of %d, %d removed", len(w.created), n, len(w.removed))
	}
	w.pause(false)
	if len(w.created) != 4 {
		t.Errorf("%d pods after it has gone on", len(w.created))
	}
}

// A start that counts anew counts no pause, and what ends a Job ends its pause.
func TestAPauseEnds(t *testing.T) {
	w := begin(func(*batchv1.JobSpec) {})
	w.pause(true)
	w.pass(time.Minute)
	w.edit(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })
	w.settle()
	if w.record.Paused() {
		t.Error("a suspended Job is paused")
	}
	w.edit(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) })
	w.settle()
	if !w.record.Paused() || batch.PausedFor(w.job.Annotations) != 0 {
		t.Errorf("after it was resumed: %s, paused for %s", w.conditions(), batch.PausedFor(w.job.Annotations))
	}
	w.edit(func(j *batchv1.Job) { j.DeletionTimestamp = ptr.To(metav1.NewTime(w.now)) })
	w.settle()
	if w.record.Paused() {
		t.Error("a Job that is deleted is paused")
	}
}

// displace pauses a pod of a world for others, or lets it go on.
func (w *world) displace(name string, displaced bool) {
	w.set(name, func(p *corev1.Pod) {
		c := corev1.PodCondition{Type: core.PodDisplaced, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.now)}
		if displaced {
			c.Status = corev1.ConditionTrue
		}
		conditions.Set(&p.Status.Conditions, c)
	})
	w.settle()
}

// The deadline of a Job stands still while a pod of it is paused for others, and otherwise the Job goes on. What somebody pauses stays
// so when the others are done with.
func TestTheTimeOfDisplacedPodsDoesNotCount(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) {
		s.Parallelism, s.Completions, s.ActiveDeadlineSeconds = ptr.To[int32](2), ptr.To[int32](4), ptr.To[int64](60)
	})
	w.startAll()
	names := w.names()
	is := func(want, state string) {
		t.Helper()
		w.record = w.rebuilt() // a restart changes nothing
		if by := batch.PausedBy(&w.job.Status); by != want || batch.State(w.job) != state || w.record.Paused() != (want == batch.PausedByUser) {
			t.Errorf("paused by %q, %s; want %q, %s", by, batch.State(w.job), want, state)
		}
	}
	w.displace(names[0], true)
	is(batch.PodsPreempted, batch.StateRunning)
	w.pass(time.Hour)
	w.end(names[1], 0)
	w.settle()
	if len(w.created) != 3 {
		t.Errorf("%d pods: one that has succeeded is not followed by another", len(w.created))
	}
	w.displace(w.created[2].v.Name, true)
	is(batch.Preempted, batch.StatePreempted)
	w.pause(true)
	is(batch.PausedByUser, batch.StatePaused)
	w.displace(names[0], false)
	w.displace(w.created[2].v.Name, false)
	w.pass(time.Hour)
	is(batch.PausedByUser, batch.StatePaused)
	w.displace(names[0], true)
	w.pause(false)
	is(batch.PodsPreempted, batch.StateRunning)
	w.pass(time.Hour)
	w.displace(names[0], false)
	is("", batch.StateRunning)
	if d := batch.PausedFor(w.job.Annotations); d != 3*time.Hour {
		t.Errorf("paused for %s", d)
	}
	var told []string
	for _, e := range w.events {
		if slices.Contains([]string{"Paused", "Continued", batch.PodsPreempted}, e.v.Reason) {
			told = append(told, e.v.Reason)
		}
	}
	if want := []string{batch.PodsPreempted, "Paused", "Continued", "Continued"}; !slices.Equal(told, want) {
		t.Errorf("events: %v, want %v", told, want)
	}
	w.pass(time.Minute)
	if standing(w.job.Status.Conditions, batchv1.JobFailureTarget) == nil {
		t.Errorf("it does not end: %s", w.conditions())
	}
}
