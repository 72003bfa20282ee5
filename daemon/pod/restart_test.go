package pod

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

const (
	restart    = corev1.ContainerRestartRuleActionRestart
	restartAll = corev1.ContainerRestartRuleActionRestartAllContainers
	in         = corev1.ContainerRestartRuleOnExitCodesOpIn
	notIn      = corev1.ContainerRestartRuleOnExitCodesOpNotIn
)

func rule(action corev1.ContainerRestartRuleAction, operator corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
	return corev1.ContainerRestartRule{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes}}
}

func ruled(pod *corev1.Pod, name string, rules ...corev1.ContainerRestartRule) *corev1.Pod {
	c, never := find(pod, name).spec, corev1.ContainerRestartPolicyNever
	if c.RestartPolicyRules = rules; c.RestartPolicy == nil {
		c.RestartPolicy = &never
	}
	return pod
}

func TestRestartPolicyRules(t *testing.T) {
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	for _, tc := range []struct {
		name   string
		own    corev1.ContainerRestartPolicy
		rules  []corev1.ContainerRestartRule
		code   int32
		wanted bool
	}{
		{"a code that is named", never, []corev1.ContainerRestartRule{rule(restart, in, 41, 42)}, 42, true},
		{"another one falls to the policy", never, []corev1.ContainerRestartRule{rule(restart, in, 42)}, 1, false},
		{"another one falls to the policy, which restarts", always, []corev1.ContainerRestartRule{rule(restart, in, 42)}, 1, true},
		{"a code that is not excepted", never, []corev1.ContainerRestartRule{rule(restart, notIn, 0, 1)}, 42, true},
		{"one that is", never, []corev1.ContainerRestartRule{rule(restart, notIn, 0, 1)}, 1, false},
		{"success can be named too", never, []corev1.ContainerRestartRule{rule(restart, in, 0)}, 0, true},
		{"a later rule", never, []corev1.ContainerRestartRule{rule(restart, in, 1), rule(restart, in, 2)}, 2, true},
	} {
		for _, name := range []string{"init:a", "a"} {
			pod := newPod(corev1.RestartPolicyNever, name)
			c := container{spec: &slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)[0]}
			c.spec.RestartPolicy, c.spec.RestartPolicyRules = &tc.own, tc.rules
			if got := restarts(pod, c, &corev1.ContainerStateTerminated{ExitCode: tc.code}); got != tc.wanted {
				t.Errorf("%s (%s): %t", tc.name, name, got)
			}
		}
	}
}

func TestTheFirstRuleThatMatchesCounts(t *testing.T) {
	l := newLife(t, ruled(newPod(corev1.RestartPolicyNever, "a", "b"), "a", rule(restart, in, 1), rule(restartAll, notIn, 0)))
	l.want(l.turn(), "Launch a/0", "Launch b/0")
	l.want(l.turn(l.started("a", 0), l.started("b", 0)))
	l.wait(5 * time.Second)
	l.want(l.turn(l.exited("a", 0, 1)), "Launch a/1")
	l.state("b", "running/0")
	l.condition(corev1.AllContainersRestarting, "False")
}

func TestRestartOfAllContainers(t *testing.T) {
	l := newLife(t, ruled(newPod(corev1.RestartPolicyNever, "side:s", "init:i", "a", "b", "c"), "a", rule(restartAll, in, 42)))
	begin := func(attempt int) {
		t.Helper()
		l.turn(l.started("s", attempt))
		l.turn(l.exited("i", attempt, 0))
		l.want(l.turn(l.started("a", attempt), l.started("b", attempt), l.exited("c", attempt, 0)))
	}
	l.want(l.turn(), "Launch s/0")
	begin(0)
	l.wait(5 * time.Second)
	l.want(l.turn(l.exited("a", 0, 42)), "SIGKILL s/0", "SIGKILL b/0")
	l.condition(corev1.AllContainersRestarting, "True RestartAllContainersStarted")
	l.phase(corev1.PodRunning)
	l.want(l.turn(l.exited("s", 0, 137)))
	l.want(l.turn(l.exited("b", 0, 137)), "Launch s/1")
	l.condition(corev1.AllContainersRestarting, "False")
	l.condition(corev1.PodInitialized, "False ContainersNotInitialized")
	for _, name := range []string{"s", "i", "a", "b", "c"} {
		l.state(name, "RestartingAllContainers/1")
	}
	l.phase(corev1.PodRunning)

	// A launch that fails does not bring the old end back.
	l.want(l.turn(l.failed("s", 1, duty.CreateContainer, "no")))
	l.wait(10 * time.Second)
	l.want(l.turn(), "Launch s/1")
	begin(1)

	// Not at once for the second time.
	l.want(l.turn(l.exited("a", 1, 42)), "SIGKILL s/1", "SIGKILL b/1")
	l.want(l.turn(l.exited("s", 1, 137), l.exited("b", 1, 137)))
	l.wakeIn(10 * time.Second)
	l.wait(10 * time.Second)
	l.want(l.turn(), "Launch s/2")
	begin(2)

	// Any other end is final.
	l.turn(l.exited("b", 2, 0), l.exited("a", 2, 1), l.exited("s", 2, 0))
	l.phase(corev1.PodFailed)
	l.condition(corev1.AllContainersRestarting, "False PodFailed")
}

// What is reset shows neither that it is ready nor that it has started, what has not begun yet waits as it did, and it is said of all that
// runs that it is stopped. Of two containers that restart all of them, the later back-off counts.
func TestWhatARestartOfAllContainersShows(t *testing.T) {
	pod := ruled(ruled(newPod(corev1.RestartPolicyNever, "a", "b", "c", "d"), "a", rule(restartAll, in, 42)), "b", rule(restartAll, in, 42))
	l := newLife(t, pod)
	l.turn()
	l.turn(l.started("a", 0), l.started("b", 0), l.started("c", 0), l.failed("d", 0, duty.CreateContainer, "no"))
	l.want(l.turn(l.exited("b", 0, 42)), "SIGKILL a/0", "SIGKILL c/0")
	l.saw(1, "Killing", "Stopping container a")
	l.saw(1, "Killing", "Stopping container c")
	l.want(l.turn(l.exited("a", 0, 42), l.exited("c", 0, 137)), "Launch a/1", "Launch b/1", "Launch c/1")
	for _, name := range []string{"a", "b", "c"} {
		l.state(name, "RestartingAllContainers/1")
		if s := find(l.pod, name).status; s.Ready || *s.Started {
			t.Errorf("%s: ready %v, started %v", name, s.Ready, *s.Started)
		}
	}
	l.state("d", "CreateContainerError/0")

	// a ran for longer.
	l.turn(l.started("b", 1), l.started("c", 1), l.started("a", 1), l.started("d", 0))
	l.want(l.turn(l.exited("b", 1, 42)), "SIGKILL a/1", "SIGKILL c/1", "SIGKILL d/0")
	l.wait(3 * time.Second)
	l.want(l.turn(l.exited("a", 1, 42), l.exited("c", 1, 137), l.exited("d", 0, 137)))
	l.wakeIn(10 * time.Second)
	l.wait(10*time.Second - 1)
	l.want(l.turn())
	l.wait(1)
	l.want(l.turn(), "Launch a/2", "Launch b/2", "Launch c/2", "Launch d/1")
}

// The main containers are killed for it, and their restart policy alone would make that the end of the pod.
func TestASidecarRestartsAllContainers(t *testing.T) {
	l := newLife(t, ruled(newPod(corev1.RestartPolicyNever, "init:i", "side:s", "side:r", "a"), "r", rule(restartAll, in, 42)))
	begin := func(attempt int) {
		t.Helper()
		l.turn(l.exited("i", attempt, 0))
		l.turn(l.started("s", attempt))
		l.turn(l.started("r", attempt))
		l.want(l.turn(l.started("a", attempt)))
		l.phase(corev1.PodRunning)
	}
	l.want(l.turn(), "Launch i/0")
	begin(0)
	l.wait(30 * time.Second)
	l.want(l.turn(l.exited("r", 0, 42)), "SIGKILL s/0", "SIGKILL a/0")
	l.want(l.turn(l.exited("a", 0, 137)))
	l.phase(corev1.PodRunning)
	l.want(l.turn(l.exited("s", 0, 137)), "Launch i/1")
	l.phase(corev1.PodRunning)
	begin(1)

	// The second time there is a back-off, in which nothing runs.
	l.want(l.turn(l.exited("r", 1, 42)), "SIGKILL s/1", "SIGKILL a/1")
	l.want(l.turn(l.exited("a", 1, 137), l.exited("s", 1, 137)))
	l.wakeIn(10 * time.Second)
	l.phase(corev1.PodRunning)
	l.condition(corev1.AllContainersRestarting, "True RestartAllContainersStarted")
	l.wait(10 * time.Second)
	l.want(l.turn(), "Launch i/2")
	l.phase(corev1.PodRunning)
}

func TestASidecarThatIsToEndRestartsNothing(t *testing.T) {
	l := newLife(t, ruled(newPod(corev1.RestartPolicyNever, "side:r", "a"), "r", rule(restartAll, notIn, 0)))
	l.turn()
	l.turn(l.started("r", 0))
	l.turn(l.started("a", 0))
	l.want(l.turn(l.exited("a", 0, 0)), "SIGKILL r/0")
	l.want(l.turn(l.exited("r", 0, 143)), "TearDown")
	l.phase(corev1.PodSucceeded)
	l.condition(corev1.AllContainersRestarting, "False PodCompleted")
}

func TestADeletedPodDoesNotStartAnew(t *testing.T) {
	l := newLife(t, ruled(newPod(corev1.RestartPolicyNever, "a", "b"), "a", rule(restartAll, in, 42)))
	l.turn()
	l.turn(l.started("a", 0), l.started("b", 0))
	l.turn(l.exited("a", 0, 42))
	l.want(l.turn(l.exited("b", 0, 137)), "Launch a/1", "Launch b/1")
	l.delete(0)
	l.want(l.turn(), "SIGKILL a/1", "SIGKILL b/1")
	l.want(l.turn(
		duty.Observation{What: duty.Dropped, Container: "a", Attempt: 1}, duty.Observation{What: duty.Dropped, Container: "b", Attempt: 1},
	), "TearDown")
	l.state("a", "Error:42/0")
	l.state("b", "Error:137/0")
	l.phase(corev1.PodFailed)
}
