package pod

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

func TestSidecars(t *testing.T) {
	seen := func(what duty.What, container string, attempt, code int) duty.Observation {
		o := duty.Observation{What: what, Container: container, Attempt: attempt}
		o.Status.ExitCode = code
		return o
	}
	for name, steps := range map[string][]struct {
		seen  []duty.Observation
		wants []string
		phase corev1.PodPhase
	}{
		"start in order, and end after the main containers in reverse": {
			{nil, []string{"Launch s/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Started, "s", 0, 0)}, []string{"Launch i/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Exited, "i", 0, 0)}, []string{"Launch u/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Started, "u", 0, 0)}, []string{"Launch a/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Started, "a", 0, 0)}, nil, corev1.PodRunning},
			{[]duty.Observation{seen(duty.Exited, "a", 0, 0)}, []string{"SIGTERM u/0"}, corev1.PodRunning},
			{[]duty.Observation{seen(duty.Exited, "u", 0, 143)}, []string{"SIGTERM s/0"}, corev1.PodRunning},
			{[]duty.Observation{seen(duty.Exited, "s", 0, 143)}, []string{"TearDown"}, corev1.PodSucceeded},
		},
		"are started again while others run, whatever the pod's policy": {
			{nil, []string{"Launch s/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Started, "s", 0, 0)}, []string{"Launch i/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Started, "i", 0, 0), seen(duty.Exited, "s", 0, 0)}, []string{"Launch s/1"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Started, "s", 1, 0), seen(duty.Exited, "i", 0, 0)}, []string{"Launch u/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Started, "u", 0, 0)}, []string{"Launch a/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Started, "a", 0, 0), seen(duty.Exited, "u", 0, 1)}, []string{"Launch u/1"}, corev1.PodRunning},
			{[]duty.Observation{seen(duty.Started, "u", 1, 0), seen(duty.Exited, "a", 0, 1)}, []string{"SIGTERM u/1"}, corev1.PodRunning},
			{[]duty.Observation{seen(duty.Exited, "u", 1, 0)}, []string{"SIGTERM s/1"}, corev1.PodRunning},
			{[]duty.Observation{seen(duty.Exited, "s", 1, 0)}, []string{"TearDown"}, corev1.PodFailed},
		},
		"are waited for by a pod that runs, also when its start is seen with its end": {
			{nil, []string{"Launch s/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Started, "s", 0, 0), seen(duty.Exited, "i", 0, 0), seen(duty.Started, "u", 0, 0),
				seen(duty.Started, "a", 0, 0), seen(duty.Exited, "a", 0, 0)},
				[]string{"SIGTERM u/0"}, corev1.PodRunning},
			{[]duty.Observation{seen(duty.Exited, "u", 0, 143)}, []string{"SIGTERM s/0"}, corev1.PodRunning},
			{[]duty.Observation{seen(duty.Exited, "s", 0, 143)}, []string{"TearDown"}, corev1.PodSucceeded},
		},
		"end with an init container that fails": {
			{nil, []string{"Launch s/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Started, "s", 0, 0)}, []string{"Launch i/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Exited, "i", 0, 1)}, []string{"SIGTERM s/0"}, corev1.PodPending},
			{[]duty.Observation{seen(duty.Exited, "s", 0, 0)}, []string{"TearDown"}, corev1.PodFailed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(corev1.RestartPolicyNever, "side:s", "init:i", "side:u", "a")
			pod.Spec.TerminationGracePeriodSeconds = seconds64(30)
			l := newLife(t, pod)
			for i, step := range steps {
				l.now = l.now.Add(time.Second)
				for n := range step.seen {
					step.seen[n].Status.FinishedAt = l.now
				}
				if got := l.turn(step.seen...); !slices.Equal(got, step.wants) || pod.Status.Phase != step.phase {
					t.Fatalf("step %d: got %q and %s, want %q and %s", i, got, pod.Status.Phase, step.wants, step.phase)
				}
			}
		})
	}
}

func TestSidecarsHaveThePodsGrace(t *testing.T) {
	pod := newPod(corev1.RestartPolicyNever, "side:s", "side:u", "a")
	pod.Spec.TerminationGracePeriodSeconds = seconds64(10)
	l := newLife(t, pod)
	for _, name := range []string{"s", "u", "a"} {
		l.turn()
		l.turn(duty.Observation{What: duty.Started, Container: name})
	}
	ended := duty.Observation{What: duty.Exited, Container: "a", Status: runtime.Status{FinishedAt: l.now}}
	if got := l.turn(ended); !slices.Equal(got, []string{"SIGTERM u/0"}) {
		t.Fatalf("got %q", got)
	}
	l.now = l.now.Add(10 * time.Second)
	if got := l.turn(); !slices.Equal(got, []string{"SIGTERM s/0", "SIGKILL u/0"}) {
		t.Errorf("after the grace: %q", got)
	}
	l.wait(minimumGrace)
	if got := l.turn(); !slices.Equal(got, []string{"SIGKILL s/0"}) {
		t.Errorf("after the least that each one gets: %q", got)
	}
}

func TestRestartPolicyOfAContainer(t *testing.T) {
	always, never, onFailure := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure
	for _, tc := range []struct {
		name   string
		pod    corev1.RestartPolicy
		own    *corev1.ContainerRestartPolicy
		code   int32
		wanted bool
	}{
		{"the pod's, without one of its own", corev1.RestartPolicyOnFailure, nil, 1, true},
		{"never in a pod that restarts", corev1.RestartPolicyOnFailure, &never, 1, false},
		{"on failure in a pod that does not", corev1.RestartPolicyNever, &onFailure, 1, true},
		{"on failure, after a success", corev1.RestartPolicyNever, &onFailure, 0, false},
		{"always, after a success", corev1.RestartPolicyNever, &always, 0, true},
	} {
		pod := newPod(tc.pod, "a")
		pod.Spec.Containers[0].RestartPolicy = tc.own
		if got := restarts(pod, mainContainer(pod, 0), &corev1.ContainerStateTerminated{ExitCode: tc.code}); got != tc.wanted {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}
