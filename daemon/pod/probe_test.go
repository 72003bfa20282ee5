package pod

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

func answered(check duty.Check, attempt int, ok, verdict bool) duty.Observation {
	return duty.Observation{What: duty.Checked, Container: "a", Attempt: attempt, Check: check, OK: ok, Verdict: verdict, Message: "no"}
}

func TestChecks(t *testing.T) {
	probe := &corev1.Probe{}
	probed := func(c *corev1.Container) { c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = probe, probe, probe }
	for _, tc := range []struct {
		name           string
		change         func(*corev1.Container)
		seen           []duty.Observation
		started, ready bool
		asked          []string
	}{
		{"without any, a container is ready when it runs", func(*corev1.Container) {}, nil, true, true, nil},
		{"with a readiness probe it is not", func(c *corev1.Container) { c.ReadinessProbe = probe }, nil, true, false, nil},
		{"with a startup probe it has not even started", func(c *corev1.Container) { c.StartupProbe = probe }, nil, false, false, nil},
		{"nor with a hook that is under way", func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}
		}, nil, false, false, nil},
		{"it has when the hook is done", func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}
		}, []duty.Observation{answered(duty.PostStart, 0, true, true)}, true, true, nil},
		{"a readiness probe counts only after the start", probed, []duty.Observation{answered(duty.Readiness, 0, true, true)}, false, false, nil},
		{"started and ready", probed, []duty.Observation{answered(duty.Startup, 0, true, true), answered(duty.Readiness, 0, true, true)}, true, true, nil},
		{
			"not ready any more", probed,
			[]duty.Observation{answered(duty.Startup, 0, true, true), answered(duty.Readiness, 0, true, true), answered(duty.Readiness, 0, false, true)}, true,
			false, nil,
		},
		{
			"a failure short of the threshold changes nothing", probed,
			[]duty.Observation{answered(duty.Startup, 0, true, true), answered(duty.Liveness, 0, false, false)}, true, false, nil,
		},
		{
			"it does not live", probed, []duty.Observation{answered(duty.Startup, 0, true, true), answered(duty.Liveness, 0, false, true)},
			true, false, []string{"SIGTERM a/0"},
		},
		{"it does not start", probed, []duty.Observation{answered(duty.Startup, 0, false, true)}, false, false, []string{"SIGTERM a/0"}},
		{
			"what is said of another attempt changes nothing", probed,
			[]duty.Observation{answered(duty.Startup, 1, true, true), answered(duty.Liveness, 1, false, true)}, false, false, nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(corev1.RestartPolicyOnFailure, "a")
			pod.Spec.TerminationGracePeriodSeconds = seconds64(30)
			tc.change(&pod.Spec.Containers[0])
			l := newLife(t, pod)
			l.turn()
			l.turn(duty.Observation{What: duty.Started, Container: "a"})
			got := l.turn(tc.seen...)
			s := pod.Status.ContainerStatuses[0]
			if *s.Started != tc.started || s.Ready != tc.ready || !slices.Equal(got, tc.asked) {
				t.Errorf("started %t, ready %t, asked for %q", *s.Started, s.Ready, got)
			}
		})
	}
}

func TestUnhealthyContainerIsKilledAfterItsGraceAndStartedAgain(t *testing.T) {
	pod := newPod(corev1.RestartPolicyOnFailure, "a")
	pod.Spec.TerminationGracePeriodSeconds = seconds64(30)
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: seconds64(3)}
	l := newLife(t, pod)
	l.turn()
	l.turn(duty.Observation{What: duty.Started, Container: "a"})
	l.want(l.turn(answered(duty.Liveness, 0, false, true)), "SIGTERM a/0")
	l.wakeIn(3 * time.Second)
	l.want(l.turn(answered(duty.Liveness, 0, false, true)))
	l.wait(3 * time.Second)
	l.want(l.turn(), "SIGKILL a/0")
	l.want(l.turn(duty.Observation{What: duty.Exited, Container: "a", Status: runtime.Status{ExitCode: 137, FinishedAt: l.now}}), "Launch a/1")
	l.turn(duty.Observation{What: duty.Started, Container: "a", Attempt: 1})
	l.want(l.turn(answered(duty.Liveness, 1, false, true)), "SIGTERM a/1")
}

// A sidecar has the grace of its probe too, and not longer however often it is looked at.
func TestUnhealthySidecarIsKilledAfterItsGrace(t *testing.T) {
	l := newLife(t, newPod(corev1.RestartPolicyNever, "side:a", "c"))
	l.pod.Spec.TerminationGracePeriodSeconds = seconds64(30)
	l.turn()
	l.turn(l.started("a", 0))
	l.turn(l.started("c", 0))
	l.want(l.turn(answered(duty.Liveness, 0, false, true)), "SIGTERM a/0")
	l.wait(29 * time.Second)
	l.want(l.turn())
	l.wakeIn(time.Second)
	l.wait(time.Second)
	l.want(l.turn(), "SIGKILL a/0")
}

// TestHooksThatFail: how a postStart hook has failed is said in the words of a kubelet, until the container is started again.
func TestHooksThatFail(t *testing.T) {
	for what, hook := range map[string]corev1.LifecycleHandler{
		"Exec lifecycle hook ([sh -c x])": {Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "x"}}},
		"HTTP lifecycle hook (/x)":        {HTTPGet: &corev1.HTTPGetAction{Path: "/x"}},
		"Lifecycle hook":                  {Sleep: &corev1.SleepAction{Seconds: 1}},
	} {
		l := newLife(t, newPod(corev1.RestartPolicyAlways, "a"))
		l.pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &hook}
		l.turn()
		l.turn(l.started("a", 0))
		l.turn(answered(duty.PostStart, 0, false, true))
		l.saw(1, "Killing", "FailedPostStartHook")
		l.turn(l.exited("a", 0, 143))
		want := what + ` for Container "a" in Pod "p_ns(u)" failed - error: no`
		if w := find(l.pod, "a").status.State.Waiting; w == nil || w.Reason != "PostStartHookError" || w.Message != want {
			t.Errorf("%+v, want %s", w, want)
		}
	}
}

func TestEventsOfChecks(t *testing.T) {
	for _, tc := range []struct {
		check            duty.Check
		ok, unanswered   bool
		message          string
		reason, verbatim string
	}{
		{duty.Readiness, false, false, "refused", "Unhealthy", "Readiness probe failed: refused"},
		{duty.Liveness, false, true, "no such program", "Unhealthy", "Liveness probe errored and resulted in unknown state: no such program"},
		{duty.Startup, true, false, "Probe terminated redirects", "ProbeWarning", "Startup probe warning: Probe terminated redirects"},
		{duty.PreStop, false, false, "refused", "FailedPreStopHook", "PreStopHook failed: refused"},
		{duty.PostStart, false, false, "refused", "FailedPostStartHook", "PostStartHook failed: refused"},
		{duty.PreStop, true, false, "retry succeeded", "LifecycleHTTPFallback", "retry succeeded"},
	} {
		l := newLife(t, newPod(corev1.RestartPolicyAlways, "a"))
		l.turn()
		l.turn(l.started("a", 0))
		l.turn(duty.Observation{What: duty.Checked, Container: "a", Check: tc.check, OK: tc.ok, Unanswered: tc.unanswered, Message: tc.message})
		l.saw(1, tc.reason, tc.verbatim)
	}
}
