package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

// TestHasStopped: the machine waits until nothing runs any more of the pods that end for it.
func TestHasStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  corev1.RestartPolicy
		ends    bool // the machine goes down
		exits   []string
		stopped bool
	}{
		"one that nobody has told yet":           {corev1.RestartPolicyOnFailure, false, nil, false},
		"one that is told, and runs":             {corev1.RestartPolicyOnFailure, true, nil, false},
		"one of which something runs":            {corev1.RestartPolicyOnFailure, true, []string{"a"}, false},
		"one that waits for the machine":         {corev1.RestartPolicyOnFailure, true, []string{"a", "b"}, true},
		"one that has failed for it":             {corev1.RestartPolicyNever, true, []string{"b", "a"}, true},
		"one that has come to its end by itself": {corev1.RestartPolicyNever, false, []string{"a", "b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, newPod(tc.policy, "a", "b"))
			l.pod.Spec.TerminationGracePeriodSeconds = seconds64(30)
			l.turn()
			l.turn(l.started("a", 0), l.started("b", 0))
			if tc.ends {
				l.turn(duty.Observation{What: duty.HostStops, Took: time.Minute})
			}
			for _, c := range tc.exits {
				l.turn(l.exited(c, 0, 0))
			}
			if HasStopped(l.pod) != tc.stopped {
				t.Errorf("%+v", l.pod.Status)
			}
		})
	}
}

// TestAPodThatGoesOn: nothing is left that says that it was to end, or a Job's failure policy would take it for disrupted later.
func TestAPodThatGoesOn(t *testing.T) {
	l := newLife(t, newPod(corev1.RestartPolicyOnFailure, "c"))
	l.pod.Spec.TerminationGracePeriodSeconds = seconds64(30)
	l.turn()
	l.turn(l.started("c", 0))
	l.want(l.turn(duty.Observation{What: duty.HostStops, Took: time.Minute}), "SIGTERM c/0")
	l.condition(corev1.DisruptionTarget, "True TerminationByKubelet")
	l.want(l.turn(l.exited("c", 0, 0)))
	l.want(l.turn(duty.Observation{What: duty.HostStays}), "Launch c/1")
	l.condition(corev1.DisruptionTarget, "missing")
	if l.pod.Status.Reason != "" || l.pod.Status.Message != "" {
		t.Errorf("%+v", l.pod.Status)
	}
	l.want(l.turn(l.started("c", 1)))
	l.delete(30 * time.Second)
	l.want(l.turn(), "SIGTERM c/1")
	l.wakeIn(30 * time.Second) // what was left of the machine then is over
}
