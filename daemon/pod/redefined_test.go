package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

func TestAnotherImage(t *testing.T) {
	never, always := corev1.RestartPolicyNever, corev1.RestartPolicyAlways
	with := func(o duty.Observation, image string) duty.Observation {
		o.Image = runtime.Image{Name: image}
		return o
	}
	running := func(t *testing.T, policy corev1.RestartPolicy, names ...string) *life {
		l := newLife(t, newPod(policy, names...))
		l.pod.Spec.TerminationGracePeriodSeconds = seconds64(5)
		for _, name := range names[:len(names)-1] {
			l.turn()
			l.turn(l.started(name[len("side:"):], 0))
		}
		l.turn()
		l.turn(l.started("c", 0))
		l.phase(corev1.PodRunning)
		return l
	}
	const changed = "Container c definition changed, will be restarted"
	for rule, test := range map[string]func(t *testing.T){
		"the container is restarted, even with Never": func(t *testing.T) {
			l := running(t, never, "c")
			l.pod.Spec.Containers[0].Image = "other"
			l.want(l.turn(), "SIGTERM c/0")
			l.saw(1, "Killing", changed)
			l.want(l.turn())
			l.saw(1, "Killing", changed)
			l.wait(5 * time.Second)
			l.want(l.turn(), "SIGKILL c/0")
			l.want(l.turn(l.exited("c", 0, 137)), "Launch c/1")
			l.state("c", "ContainerCreating/1")
			l.phase(corev1.PodRunning)
			l.want(l.turn(with(l.started("c", 1), "docker.io/library/other:latest")))
			l.state("c", "running/1")
			if last := find(l.pod, "c").status.LastTerminationState.Terminated; last == nil || last.ExitCode != 137 {
				t.Errorf("last state %+v", last)
			}
			l.want(l.turn(l.exited("c", 1, 0)), "TearDown")
			l.phase(corev1.PodSucceeded)
		},
		"another way to write it is the same image": func(t *testing.T) {
			l := running(t, never, "c")
			l.pod.Spec.Containers[0].Image = "docker.io/busybox:latest"
			l.want(l.turn())
		},
		"an end that was not seen before the daemon was killed starts it again": func(t *testing.T) {
			l := running(t, never, "c")
			l.pod.Spec.Containers[0].Image = "other"
			l.want(l.turn(), "SIGTERM c/0")
			l.issued = Issued{}
			held := []runtime.Status{{ID: runtime.ContainerID("u", "c", 0), State: runtime.Exited, ExitCode: 143, FinishedAt: l.now}}
			l.want(l.turn(Recover(l.pod, held, false, l.now)...), "Launch c/1")
			l.issued = Issued{}
			l.want(l.turn(), "Launch c/1")
		},
		"a start from before the change is found to have the old image": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.pod.Spec.TerminationGracePeriodSeconds = seconds64(5)
			l.turn()
			l.pod.Spec.Containers[0].Image = "other"
			l.want(l.turn(l.started("c", 0)), "SIGTERM c/0")
		},
		"one that has ended by itself stays so": func(t *testing.T) {
			l := newLife(t, newPod(never, "c", "d"))
			l.turn()
			l.turn(l.started("c", 0), l.started("d", 0))
			l.turn(l.exited("c", 0, 0))
			l.pod.Spec.Containers[0].Image = "other"
			l.want(l.turn())
			l.state("c", "Completed:0/0")
		},
		"of a pod that is deleted nothing starts again": func(t *testing.T) {
			l := running(t, always, "c")
			l.pod.Spec.Containers[0].Image = "other"
			l.turn()
			l.delete(5 * time.Second)
			l.turn()
			l.want(l.turn(l.exited("c", 0, 0)), "TearDown")
		},
		"a crash loop ends at once": func(t *testing.T) {
			l := running(t, always, "c")
			l.want(l.turn(l.exited("c", 0, 1)), "Launch c/1")
			l.turn(l.started("c", 1))
			l.want(l.turn(l.exited("c", 1, 1)))
			l.state("c", "CrashLoopBackOff/1")
			l.pod.Spec.Containers[0].Image = "other"
			l.want(l.turn(), "Launch c/2")
		},
		"an image that cannot be had is replaced at once": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.want(l.turn(l.failed("c", 0, duty.ErrImagePull, "no")))
			l.pod.Spec.Containers[0].Image = "other"
			l.want(l.turn(), "Launch c/0")
		},
		"a sidecar is restarted, and the pod stays initialized": func(t *testing.T) {
			l := running(t, never, "side:s", "c")
			l.pod.Spec.InitContainers[0].Image = "other"
			l.want(l.turn(), "SIGTERM s/0")
			l.saw(1, "Killing", "Init container s definition changed")
			l.want(l.turn(l.exited("s", 0, 0)), "Launch s/1")
			l.condition(corev1.PodInitialized, "True")
			l.phase(corev1.PodRunning)
		},
		"a sidecar that ends too late is killed after its grace": func(t *testing.T) {
			l := running(t, never, "side:s", "c")
			l.pod.Spec.InitContainers[0].Image = "other"
			l.want(l.turn(), "SIGTERM s/0")
			l.wait(4 * time.Second)
			l.want(l.turn())
			l.wakeIn(time.Second)
			l.wait(time.Second)
			l.want(l.turn(), "SIGKILL s/0")
		},
		"a sidecar that has not started yet goes on": func(t *testing.T) {
			l := newLife(t, newPod(never, "side:s", "c"))
			l.pod.Spec.InitContainers[0].StartupProbe = &corev1.Probe{}
			l.turn()
			l.turn(l.started("s", 0))
			l.pod.Spec.InitContainers[0].Image = "other"
			l.want(l.turn())
		},
		"a container that is ended for its health is not ended twice": func(t *testing.T) {
			l := running(t, never, "c")
			l.pod.Spec.Containers[0].Image = "other"
			l.want(l.turn(duty.Observation{What: duty.Checked, Container: "c", Check: duty.Liveness, Verdict: true}), "SIGTERM c/0")
			l.want(l.turn(l.exited("c", 0, 143)), "Launch c/1")
		},
		"of a pod that is past its deadline nothing starts again": func(t *testing.T) {
			l := running(t, never, "c")
			l.pod.Spec.ActiveDeadlineSeconds = seconds64(60)
			l.wait(time.Minute)
			l.pod.Spec.Containers[0].Image = "other"
			l.want(l.turn(), "SIGTERM c/0")
			l.want(l.turn(l.exited("c", 0, 0)), "TearDown")
			l.state("c", "Completed:0/0")
			l.phase(corev1.PodFailed)
		},
		"an image that nobody can read is another one, and one that nobody could is not known to be": func(t *testing.T) {
			l := running(t, never, "c")
			l.pod.Spec.Containers[0].Image = "!"
			l.want(l.turn(), "SIGTERM c/0")
			l = newLife(t, newPod(never, "c"))
			l.turn()
			l.turn(with(l.started("c", 0), "!"))
			l.want(l.turn())
		},
		"an init container that runs goes on": func(t *testing.T) {
			l := newLife(t, newPod(never, "init:i", "c"))
			l.turn()
			l.turn(l.started("i", 0))
			l.pod.Spec.InitContainers[0].Image = "other"
			l.want(l.turn())
		},
	} {
		t.Run(rule, test)
	}
}
