package job

import (
	"fmt"
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

// A Job that is paused before it has begun does not begin, and does not end either.
func TestPausedBeforeTheStart(t *testing.T) {
	for name, begin := range map[string]func(w *world){
		"created so": func(*world) {},
		"suspended before": func(w *world) {
			w.edit(func(j *batchv1.Job) { delete(j.Annotations, batch.PausedAnnotation) })
			w.settle()
			suspend(w, true)
			w.pause(true)
			suspend(w, false)
		},
	} {
		for _, completions := range []int32{0, 1} {
			t.Run(fmt.Sprint(name, completions), func(t *testing.T) {
				job := newJob(func(s *batchv1.JobSpec) { s.Completions, s.ActiveDeadlineSeconds = &completions, ptr.To[int64](60) })
				job.Annotations = map[string]string{batch.PausedAnnotation: someTime.Format(time.RFC3339)}
				if name != "created so" { // or nothing would be left to be suspended
					job.Spec.Completions = ptr.To[int32](1)
				}
				w := newWorld(someTime, job)
				w.settle()
				begin(w)
				w.pass(time.Hour)
				if s := &w.job.Status; s.StartTime != nil || batch.End(s) != nil || len(w.names()) > 0 || !w.record.Paused() {
					t.Fatalf("it has begun: %s", describe(s))
				}
				w.pause(false)
				if s := &w.job.Status; !s.StartTime.Equal(&metav1.Time{Time: w.now.Truncate(time.Second)}) || batch.PausedFor(w.job.Annotations) != 0 ||
					len(w.names()) != int(*job.Spec.Completions) {
					t.Errorf("it does not begin: %s, paused for %s", describe(s), batch.PausedFor(w.job.Annotations))
				}
			})
		}
	}
}

// What waits for something else before its start says truly whether it is paused, too.
func TestPausedBehindAGate(t *testing.T) {
	w := newWorld(someTime, newJob(nil))
	w.record.Hold(true)
	for _, pause := range []bool{true, false} {
		w.pause(pause)
		w.pass(time.Minute)
		if s := &w.job.Status; w.record.Paused() != pause || s.StartTime != nil || len(w.created) > 0 {
			t.Errorf("%v: %s", pause, describe(s))
		}
	}
	w.record.Hold(false)
	w.settle()
	if len(w.created) != 1 || batch.PausedFor(w.job.Annotations) != 0 {
		t.Errorf("%d pods, paused for %s", len(w.created), batch.PausedFor(w.job.Annotations))
	}
}

// A Job of which it is decided how it ends is not paused, however long its last pods take: it is neither said to be, nor again and again.
func TestWhatEndsIsNotPaused(t *testing.T) {
	for name, target := range map[string]batchv1.JobConditionType{"fails": batchv1.JobFailureTarget, "completes": batchv1.JobSuccessCriteriaMet} {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", paused before that: ", before), func(t *testing.T) {
				w := begin(nil)
				end := func() {
					w.edit(func(j *batchv1.Job) {
						j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: target, Status: "True", Reason: "Replaced"})
					})
					w.settle()
				}
				if before {
					w.pause(true)
					end()
				} else {
					end()
					w.pause(true)
				}
				n := len(w.revisions)
				for range 5 {
					w.pass(time.Minute)
					w.edit(func(*batchv1.Job) {})
					w.settle()
				}
				paused := 0
				for _, reason := range w.reasons() {
					if reason == "Paused" {
						paused++
					}
				}
				if w.record.Paused() || len(w.revisions) != n || before != (paused == 1) || len(w.removed) != 1 {
					t.Errorf("%s; %d more revisions, events %v, removed %v", w.conditions(), len(w.revisions)-n, w.reasons(), w.removed)
				}
			})
		}
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
	if w.record.Paused() || w.record.Stands() {
		t.Error("a Job that is deleted is paused")
	}

	// What is frozen may be killed: a pause does not keep a Job from its end.
	for name, end := range map[string]struct {
		code int32
		want string
	}{
		"fails":     {1, "jobd.dev/Paused=False JobEnded, FailureTarget=True BackoffLimitExceeded, Failed=True BackoffLimitExceeded"},
		"completes": {0, "jobd.dev/Paused=False JobEnded, SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached"},
	} {
		w := begin(func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To[int32](0) })
		w.pause(true)
		if w.pass(time.Minute); !w.record.Stands() {
			t.Errorf("%s: its deadline goes on", name)
		}
		w.end(w.names()[0], end.code)
		w.settle()
		if w.conditions() != end.want || w.record.PausedFor() != time.Minute || w.record.Stands() {
			t.Errorf("%s: %s, paused for %s", name, w.conditions(), w.record.PausedFor())
		}
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
