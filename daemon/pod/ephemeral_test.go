package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// look adds an ephemeral container to the pod.
func (l *life) look(name string) {
	l.pod.Spec.EphemeralContainers = append(l.pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "busybox"},
	})
	l.pod.Generation++
}

func TestEphemeralContainers(t *testing.T) {
	never, always := corev1.RestartPolicyNever, corev1.RestartPolicyAlways
	running := func(t *testing.T, policy corev1.RestartPolicy, names ...string) *life {
		l := newLife(t, newPod(policy, names...))
		l.turn()
		l.turn(l.started("c", 0))
		l.phase(corev1.PodRunning)
		return l
	}
	for rule, test := range map[string]func(t *testing.T){
		"one is started once, and is not part of what the pod shows": func(t *testing.T) {
			l := running(t, always, "c")
			l.look("e")
			l.want(l.turn(), "Launch e/0")
			l.state("e", "ContainerCreating/0")
			l.want(l.turn())
			l.condition(corev1.PodReady, "True")
			l.turn(l.started("e", 0))
			l.state("e", "running/0")
			s := find(l.pod, "e").status
			if s.Ready || s.Started != nil {
				t.Errorf("ready %v, started %v", s.Ready, s.Started)
			}
			l.events = nil
			l.want(l.turn(l.exited("e", 0, 3)))
			l.state("e", "Error:3/0")
			l.phase(corev1.PodRunning)
			l.condition(corev1.PodReady, "True")
			l.wait(time.Hour)
			l.want(l.turn())
			l.want(l.turn(l.exited("c", 0, 1)), "Launch c/1")
		},
		"one that was started unseen before a restart is known of after it, also in a pod that has ended meanwhile": func(t *testing.T) {
			l := running(t, never, "c")
			l.look("e")
			l.turn()
			status := func(container string, state runtime.State) runtime.Status {
				return runtime.Status{ID: runtime.ContainerID(string(l.pod.UID), container, 0), State: state}
			}
			held := []runtime.Status{status("c", runtime.Exited), status("e", runtime.Running)}
			l.turn(Recover(l.pod, held, false, l.now)...)
			l.state("e", "running/0")
			if Done(l.pod) {
				t.Error("nobody ends it")
			}
		},
		"its events name it": func(t *testing.T) {
			l := running(t, always, "c")
			l.look("e")
			l.turn()
			l.events = nil
			l.turn(l.started("e", 0))
			for _, e := range l.events {
				if e.FieldPath != "spec.ephemeralContainers{e}" {
					t.Errorf("%+v", e)
				}
			}
			l.saw(1, "Started", "Container started")
		},
		"one is started although init containers are not done": func(t *testing.T) {
			l := newLife(t, newPod(never, "init:i", "c"))
			l.turn()
			l.turn(l.started("i", 0))
			l.look("e")
			l.want(l.turn(), "Launch e/0")
			l.state("e", "PodInitializing/0")
			l.phase(corev1.PodPending)
		},
		"several are shown by name, and each is started": func(t *testing.T) {
			l := running(t, never, "c")
			l.look("z")
			l.want(l.turn(), "Launch z/0")
			l.turn(l.started("z", 0))
			l.look("a")
			l.want(l.turn(), "Launch a/0")
			if s := l.pod.Status.EphemeralContainerStatuses; s[0].Name != "a" || s[1].Name != "z" || s[1].State.Running == nil {
				t.Errorf("%+v", s)
			}
		},
		"an image that cannot be had is tried again": func(t *testing.T) {
			l := running(t, never, "c")
			l.look("e")
			l.turn()
			l.want(l.turn(l.failed("e", 0, duty.ErrImagePull, "no")))
			l.state("e", "ErrImagePull/0")
			l.wait(10 * time.Second)
			l.want(l.turn(), "Launch e/0")
		},
		"one ends with the pod, which waits for that": func(t *testing.T) {
			l := running(t, never, "c")
			l.pod.Spec.TerminationGracePeriodSeconds = seconds64(5)
			l.look("e")
			l.turn()
			l.turn(l.started("e", 0))
			l.want(l.turn(l.exited("c", 0, 0)), "SIGTERM e/0")
			l.saw(1, "Killing", "Stopping container e")
			l.phase(corev1.PodRunning)
			l.wait(5 * time.Second)
			l.want(l.turn(), "SIGKILL e/0")
			l.want(l.turn(l.exited("e", 0, 137)), "TearDown")
			l.phase(corev1.PodSucceeded)
		},
		"one that was never started does not hold up the end": func(t *testing.T) {
			l := running(t, never, "c")
			l.look("e")
			l.turn()
			l.turn(l.failed("e", 0, duty.ErrImagePull, "no"))
			l.want(l.turn(l.exited("c", 0, 1)), "TearDown")
			l.phase(corev1.PodFailed)
			l.state("e", "ErrImagePull/0")
		},
		"one that is lost is no disruption": func(t *testing.T) {
			l := running(t, never, "c")
			l.look("e")
			l.turn()
			l.turn(l.started("e", 0))
			l.want(l.turn(duty.Observation{What: duty.Lost, Container: "e"}))
			l.state("e", "ContainerStatusUnknown:137/0")
			l.condition(corev1.DisruptionTarget, "missing")
			l.phase(corev1.PodRunning)
		},
		"one is found again after a restart of the daemon": func(t *testing.T) {
			l := running(t, never, "c")
			l.look("e")
			l.turn()
			l.turn(l.started("e", 0))
			held := []runtime.Status{
				{ID: runtime.ContainerID("u", "c", 0), State: runtime.Running},
				{ID: runtime.ContainerID("u", "e", 0), State: runtime.Exited, ExitCode: 4, FinishedAt: l.now},
			}
			l.issued = Issued{}
			l.want(l.turn(Recover(l.pod, held, false, l.now)...))
			l.state("e", "Error:4/0")
			l.state("c", "running/0")
		},
		"a sidecar does not wait for one": func(t *testing.T) {
			l := newLife(t, newPod(never, "side:s", "c"))
			l.turn()
			l.turn(l.started("s", 0))
			l.turn(l.started("c", 0))
			l.look("e")
			l.turn()
			l.turn(l.started("e", 0))
			l.want(l.turn(l.exited("c", 0, 0)), "SIGKILL s/0", "SIGKILL e/0")
		},
		"one that comes to a pod that has ended is not started": func(t *testing.T) {
			l := running(t, never, "c")
			l.turn(l.exited("c", 0, 0))
			l.look("e")
			l.want(l.turn())
		},
	} {
		t.Run(rule, test)
	}
}
