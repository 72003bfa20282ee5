package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/duty"
)

func (l *life) pausedFor(want time.Duration) {
	l.t.Helper()
	if d := core.PausedFor(l.pod); d != want {
		l.t.Errorf("it was paused for %s, want %s", d, want)
	}
}

func TestAPausedPodStandsStill(t *testing.T) {
	l := newLife(t, newPod(corev1.RestartPolicyOnFailure, "a", "b"))
	l.pod.Spec.ActiveDeadlineSeconds, l.pod.Spec.TerminationGracePeriodSeconds = seconds64(100), seconds64(30)
	l.turn()
	l.turn(l.started("a", 0))
	l.wait(10 * time.Second)
	l.issued.Pause(true)
	l.want(l.turn(), "Pause")
	l.want(l.turn())
	l.want(l.turn(duty.Observation{What: duty.Paused, OK: true}))
	if !IsPaused(l.pod) {
		t.Fatal("it is not paused")
	}
	// A container whose launch was under way is frozen, too.
	l.want(l.turn(l.started("b", 0)), "Pause")
	l.want(l.turn(duty.Observation{What: duty.Paused, OK: true}))
	l.wait(time.Hour)
	l.want(l.turn())
	l.phase(corev1.PodRunning)

	l.issued = Issued{} // a restart of the daemon asks again: it stays frozen
	l.issued.Pause(true)
	l.want(l.turn(), "Pause")
	l.want(l.turn(duty.Observation{What: duty.Paused, OK: true}))

	l.issued.Pause(false)
	l.want(l.turn(), "Continue")
	l.want(l.turn(duty.Observation{What: duty.Paused, OK: true})) // an older answer
	if !IsPaused(l.pod) {
		t.Error("it goes on before it does")
	}
	l.want(l.turn(duty.Observation{What: duty.Continued, OK: true}))
	l.pausedFor(time.Hour)
	l.wakeIn(90 * time.Second)
	l.want(l.turn())

	l.issued.Pause(true) // and again
	l.want(l.turn(), "Pause")
	l.turn(duty.Observation{What: duty.Paused, OK: true})
	l.wait(time.Minute)
	l.issued.Pause(false)
	l.issued = Issued{}
	l.want(l.turn(), "Continue")
	l.turn(duty.Observation{What: duty.Continued, OK: true})
	l.pausedFor(time.Hour + time.Minute)
	l.wait(90 * time.Second)
	l.want(l.turn(), "SIGTERM a/0", "SIGTERM b/0")
}

func TestAFailedPauseIsReportedAndTriedAgain(t *testing.T) {
	l := newLife(t, newPod(corev1.RestartPolicyNever, "c"))
	l.turn()
	l.turn(l.started("c", 0))
	for _, step := range []struct {
		pause bool
		what  duty.What
		want  string
	}{{true, duty.Paused, "Pause"}, {false, duty.Continued, "Continue"}} {
		l.issued.Pause(step.pause)
		l.want(l.turn(), step.want)
		l.events = nil
		l.want(l.turn(duty.Observation{What: step.what, Message: "a process hangs"}))
		if len(l.events) != 1 || l.events[0].Reason != "Failed"+step.want || l.events[0].Message != "a process hangs" {
			t.Errorf("events: %v", l.events)
		}
		if IsPaused(l.pod) == step.pause {
			t.Errorf("%s has failed, and its condition says otherwise", step.want)
		}
		l.wakeIn(pauseAgain)
		l.wait(pauseAgain)
		l.want(l.turn(), step.want)
		l.want(l.turn(duty.Observation{What: step.what, OK: true}))
		if IsPaused(l.pod) != step.pause {
			t.Errorf("%s has no effect", step.want)
		}
	}
}

// A pod that is frozen, and is asked for it again after a restart of the daemon, stays so if that fails.
func TestAFrozenPodThatCannotBeFrozenOnceMore(t *testing.T) {
	l := newLife(t, newPod(corev1.RestartPolicyNever, "c"))
	l.turn()
	l.turn(l.started("c", 0))
	l.issued.Pause(true)
	l.turn()
	l.turn(duty.Observation{What: duty.Paused, Message: "a process hangs"})
	if !CannotPause(l.pod) || IsPaused(l.pod) {
		t.Errorf("conditions %+v", l.pod.Status.Conditions)
	}
	l.turn(duty.Observation{What: duty.Paused, OK: true})
	l.issued = Issued{}
	l.issued.Pause(true)
	l.want(l.turn(), "Pause")
	l.turn(duty.Observation{What: duty.Paused, Message: "a process hangs"})
	if CannotPause(l.pod) || !IsPaused(l.pod) {
		t.Errorf("conditions %+v", l.pod.Status.Conditions)
	}
}

// A daemon that was killed after it has frozen containers, and before it knew that, is followed by one that lets them go on, if the Job
// goes on by then.
func TestWhatACrashHasLeftFrozenGoesOn(t *testing.T) {
	for name, seen := range map[string][]duty.Observation{
		"before it was frozen": nil, "while not all of it was": {{What: duty.Paused, Message: "a process hangs"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, newPod(corev1.RestartPolicyNever, "c"))
			l.turn()
			l.turn(l.started("c", 0))
			l.issued.Pause(true)
			l.want(l.turn(), "Pause")
			l.turn(seen...)
			if IsPaused(l.pod) || !MayBePaused(l.pod) {
				t.Fatalf("nobody knows that it may be frozen: %+v", l.pod.Status.Conditions)
			}
			l.issued = Issued{}
			l.want(l.turn(), "Continue")
			l.want(l.turn(duty.Observation{What: duty.Continued, OK: true}))
			l.issued = Issued{}
			l.want(l.turn())
			l.pausedFor(0)
			if MayBePaused(l.pod) {
				t.Errorf("it may still be frozen: %+v", l.pod.Status.Conditions)
			}
		})
	}
}

// Nothing is started for a pod that is paused, and whatever ends it ends the pause.
func TestAPausedPodStartsNothingAndCanEnd(t *testing.T) {
	l := newLife(t, newPod(corev1.RestartPolicyOnFailure, "c"))
	l.pod.Spec.TerminationGracePeriodSeconds = seconds64(30)
	l.turn()
	l.turn(l.started("c", 0))
	l.issued.Pause(true)
	l.turn()
	l.want(l.turn(l.exited("c", 0, 1))) // just before it was frozen
	l.turn(duty.Observation{What: duty.Paused, OK: true})
	l.wait(time.Hour)
	l.want(l.turn())
	l.issued.Pause(false)
	l.want(l.turn(), "Continue")
	l.want(l.turn(duty.Observation{What: duty.Continued, OK: true}), "Launch c/1")
	l.turn(l.started("c", 1))
	l.issued.Pause(true)
	l.turn()
	l.turn(duty.Observation{What: duty.Paused, OK: true})
	l.wait(time.Minute)
	l.delete(30 * time.Second)
	l.want(l.turn(), "SIGTERM c/1")
	if IsPaused(l.pod) {
		t.Error("it ends, and counts as paused")
	}
	l.pausedFor(time.Hour + time.Minute)
}
