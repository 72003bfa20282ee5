package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/duty"
)

// signalLife is a pod that runs and gets SIGUSR1 a minute before it ends.
func signalLife(t *testing.T, names ...string) *life {
	p := newPod(corev1.RestartPolicyNever, names...)
	p.Annotations = map[string]string{core.SignalAnnotation: "USR1@60s"}
	p.Spec.TerminationGracePeriodSeconds = seconds64(30)
	return newLife(t, p)
}

func (l *life) signaled(want corev1.ConditionStatus, reason string) {
	l.t.Helper()
	c := conditions.Find(l.pod.Status.Conditions, core.Signaled)
	switch {
	case c == nil && want != "":
		l.t.Errorf("the condition is missing, want %s", want)
	case c != nil && (c.Status != want || c.Reason != reason):
		l.t.Errorf("the condition is %s %s, want %s %s", c.Status, c.Reason, want, reason)
	}
}

func TestASignalComesBeforeADeadline(t *testing.T) {
	for name, set := range map[string]func(l *life){
		"of the pod": func(l *life) { l.pod.Spec.ActiveDeadlineSeconds = seconds64(100) },
		"of its Job": func(l *life) { l.issued.JobEnds(epoch.Add(100 * time.Second)) },
		"of both, the earlier one": func(l *life) {
			l.pod.Spec.ActiveDeadlineSeconds = seconds64(100)
			l.issued.JobEnds(epoch.Add(200 * time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := signalLife(t, "c")
			set(l)
			l.want(l.turn(), "Launch c/0")
			l.want(l.turn(l.started("c", 0)))
			l.wakeIn(40 * time.Second)
			l.wait(40 * time.Second)
			l.want(l.turn(), "SendSignal")
			l.signaled(corev1.ConditionFalse, core.DeadlineNear)
			l.want(l.turn()) // it is asked for once

			l.issued = Issued{} // the daemon is killed: whether it was sent is not known here, but the shard knows
			set(l)
			l.want(l.turn(), "SendSignal")
			l.want(l.turn(duty.Observation{What: duty.SignalSent, OK: true}))
			l.signaled(corev1.ConditionTrue, core.DeadlineNear)
			l.issued = Issued{}
			set(l)
			l.want(l.turn(duty.Observation{What: duty.SignalSent, OK: true}))
			n := 0
			for _, e := range l.events {
				if e.Reason == "Signaled" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d events tell of it", n)
			}
		})
	}
}

func TestASignalThatCannotBeSent(t *testing.T) {
	l := signalLife(t, "c")
	l.pod.Spec.ActiveDeadlineSeconds = seconds64(100)
	l.turn()
	l.turn(l.started("c", 0))
	l.wait(40 * time.Second)
	l.want(l.turn(), "SendSignal")
	l.want(l.turn(duty.Observation{What: duty.SignalSent, Message: "no such process"}))
	l.signaled(corev1.ConditionUnknown, core.DeadlineNear)
	l.saw(1, "FailedSignal", "SIGUSR1 could not be sent to all containers: no such process")
	l.wait(time.Second)
	l.want(l.turn()) // it is not tried again, which some would get twice
	l.want(l.turn(duty.Observation{What: duty.SignalSent, OK: true}))
	l.signaled(corev1.ConditionUnknown, core.DeadlineNear)
}

// What was due when it was decided is sent to those that ran then, also if nobody knows any more when the Job ends.
func TestASignalOutlivesWhatItWasDecidedFrom(t *testing.T) {
	l := signalLife(t, "c")
	l.issued.JobEnds(epoch.Add(100 * time.Second))
	l.turn()
	l.turn(l.started("c", 0))
	l.wait(40 * time.Second)
	l.want(l.turn(), "SendSignal")
	decided := l.now
	l.issued = Issued{}
	l.wait(5 * time.Second)
	Apply(l.pod, &l.issued, nil, l.now)
	if actions, _ := Next(l.pod, &l.issued, l.now); len(actions) != 1 || actions[0].Kind != duty.SendSignal || !actions[0].Due.Equal(decided) {
		t.Errorf("%+v, want one that was due at %s", actions, decided)
	}
}

func TestWhatStartsTooLateGetsNoSignal(t *testing.T) {
	l := signalLife(t, "c")
	l.issued.JobEnds(epoch.Add(60 * time.Second))
	l.wait(5 * time.Second)
	l.want(l.turn(), "Launch c/0")
	l.want(l.turn(l.started("c", 0)))
	l.wait(10 * time.Second)
	l.want(l.turn())
	l.signaled("", "")

	l = signalLife(t, "c") // the daemon was down all the time
	l.pod.Spec.ActiveDeadlineSeconds = seconds64(100)
	l.turn()
	l.turn(l.started("c", 0))
	l.wait(100 * time.Second)
	l.want(l.turn(), "SIGTERM c/0")
	l.signaled("", "")
}

// evict deletes the pod as an eviction does.
func (l *life) evict() {
	conditions.Set(&l.pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
	})
	lead := core.SignalLead(l.pod, l.now)
	storage.MarkDeleted(l.pod, l.now, *l.pod.Spec.TerminationGracePeriodSeconds+int64(lead/time.Second))
}

func TestASignalComesBeforeAnEviction(t *testing.T) {
	begin := func(names ...string) *life {
		l := signalLife(t, names...)
		l.turn()
		for _, name := range names {
			if name != "side:s" {
				l.turn(l.started(name, 0))
			} else {
				l.turn(l.started("s", 0))
			}
		}
		l.wait(time.Second)
		l.evict()
		l.want(l.turn(), "SendSignal")
		l.signaled(corev1.ConditionFalse, core.EvictionNear)
		l.want(l.turn(duty.Observation{What: duty.SignalSent, OK: true}))
		l.signaled(corev1.ConditionTrue, core.EvictionNear)
		return l
	}
	l := begin("c")
	l.wakeIn(time.Minute)
	l.wait(59 * time.Second)
	l.want(l.turn())
	l.wait(time.Second)
	l.want(l.turn(), "SIGTERM c/0")
	l.wakeIn(30 * time.Second)
	l.wait(30 * time.Second)
	l.want(l.turn(), "SIGKILL c/0")

	l = begin("c") // it ends by itself, having written what it had to
	l.wait(3 * time.Second)
	l.want(l.turn(l.exited("c", 0, 1)), "TearDown")
	l.phase(corev1.PodFailed)

	l = begin("side:s", "c") // and so does one with a sidecar
	l.wait(3 * time.Second)
	l.want(l.turn(l.exited("c", 0, 0)), "SIGTERM s/0")

	l = begin("c") // somebody does not want to wait for it
	l.wait(3 * time.Second)
	storage.MarkDeleted(l.pod, l.now, 1)
	l.want(l.turn(), "SIGTERM c/0")

	l = begin("c") // over a restart of the daemon
	l.wait(30 * time.Second)
	l.issued = Issued{}
	l.issued.Resume(l.pod, l.now)
	l.want(l.turn())
	l.wait(30 * time.Second)
	l.want(l.turn(), "SIGTERM c/0")
}

// A pod that was deleted, but not to make room, has no time for its signal.
func TestADeletionIsNotPutOff(t *testing.T) {
	l := signalLife(t, "c")
	l.turn()
	l.turn(l.started("c", 0))
	l.delete(30 * time.Second)
	l.want(l.turn(), "SIGTERM c/0")
	l.signaled("", "")
}
