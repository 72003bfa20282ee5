package pod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/jobd/jobd/runtime"
)

func equal(a, b *corev1.Pod) bool { return equality.Semantic.DeepEqual(a.Status, b.Status) }

func seconds64(n int64) *int64 { return &n }

func TestPodLife(t *testing.T) {
	never, onFailure, always := corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure, corev1.RestartPolicyAlways
	for rule, test := range map[string]func(t *testing.T){
		"a pod that is not bound needs nothing": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.pod.Spec.NodeName = ""
			l.want(l.turn())
			l.phase(corev1.PodPending)
		},
		"a bound pod is launched": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.want(l.turn(), "Launch c/0")
			l.state("c", "ContainerCreating/0")
			l.phase(corev1.PodPending)
			l.condition(corev1.PodScheduled, "True")
			l.condition(corev1.PodInitialized, "True")
			l.condition(corev1.ContainersReady, "False ContainersNotReady")
			l.condition(corev1.PodReady, "False ContainersNotReady")
			l.condition(corev1.PodReadyToStartContainers, "False")
			l.want(l.turn())
		},
		"main containers are launched together": func(t *testing.T) {
			l := newLife(t, newPod(never, "b", "a"))
			l.want(l.turn(), "Launch b/0", "Launch a/0")
			l.want(l.turn(l.started("a", 0)))
			l.phase(corev1.PodPending)
			l.want(l.turn(l.started("b", 0)))
			l.phase(corev1.PodRunning)
			l.condition(corev1.PodReady, "True")
			l.condition(corev1.PodReadyToStartContainers, "True")
		},
		"a signal is an exit code, as a kubelet shows it": func(t *testing.T) {
			l := newLife(t, newPod(corev1.RestartPolicyNever, "c"))
			l.turn()
			l.turn(l.started("c", 0))
			killed := l.exited("c", 0, 137)
			killed.Status.Signal = 9
			l.turn(killed)
			if end := find(l.pod, "c").status.State.Terminated; end == nil || end.ExitCode != 137 || end.Signal != 0 {
				t.Errorf("%+v", end)
			}
		},
		"a pod that is evicted has a moment to end and fails, whatever it ends with": func(t *testing.T) {
			l := newLife(t, newPod(always, "c"))
			l.turn()
			l.turn(l.started("c", 0))
			evict := Observation{UID: l.pod.UID, What: Evicted, Message: "too big", At: l.now}
			l.want(l.turn(evict), "terminated c/0")
			l.condition(corev1.DisruptionTarget, "True TerminationByKubelet")
			l.phase(corev1.PodRunning)
			l.want(l.turn(evict))
			l.want(l.turn(l.exited("c", 0, 7)), "TearDown")
			l.phase(corev1.PodFailed)
			l.state("c", "Error:7/0")
			if s := l.pod.Status; s.Reason != "Evicted" || s.Message != "too big" {
				t.Errorf("%s: %s", s.Reason, s.Message)
			}
		},
		"a pod that is rejected fails once no launch is under way, and nothing is said of its containers": func(t *testing.T) {
			l := newLife(t, newPod(always, "a", "b"))
			l.want(l.turn(), "Launch a/0", "Launch b/0")
			reject := func(container string) Observation {
				return Observation{UID: l.pod.UID, What: Rejected, Container: container, Reason: "AppArmor", Message: "no such profile", At: l.now}
			}
			l.want(l.turn(reject("a")), "killed b/0")
			l.phase(corev1.PodPending)
			l.want(l.turn(reject("b"), reject("b")), "TearDown")
			l.phase(corev1.PodFailed)
			if s := l.pod.Status; s.Reason != "AppArmor" || s.Message != "Pod was rejected: no such profile" {
				t.Errorf("%s: %s", s.Reason, s.Message)
			}
			for _, s := range l.pod.Status.ContainerStatuses {
				if w := s.State.Waiting; w == nil || w.Reason != "" {
					t.Errorf("container %s: %+v", s.Name, s.State)
				}
			}
		},
		"all containers that exit with 0 make it Succeeded": func(t *testing.T) {
			l := newLife(t, newPod(never, "a", "b"))
			l.turn()
			l.turn(l.started("a", 0), l.started("b", 0))
			l.want(l.turn(l.exited("a", 0, 0)))
			l.phase(corev1.PodRunning)
			l.condition(corev1.PodReady, "False ContainersNotReady")
			l.want(l.turn(l.exited("b", 0, 0)), "TearDown")
			l.phase(corev1.PodSucceeded)
			l.condition(corev1.PodReady, "False PodCompleted")
			if Done(l.pod) {
				t.Error("done before it is torn down")
			}
			l.want(l.turn(Observation{What: TornDown}))
			l.condition(corev1.PodReadyToStartContainers, "False PodSandboxNotReady")
			if !Done(l.pod) {
				t.Error("not done after it was torn down")
			}
		},
		"with Never one container that fails makes it Failed, once all have ended": func(t *testing.T) {
			l := newLife(t, newPod(never, "a", "b"))
			l.turn()
			l.turn(l.started("a", 0), l.started("b", 0))
			l.want(l.turn(l.exited("a", 0, 3)))
			l.phase(corev1.PodRunning)
			l.want(l.turn(l.exited("b", 0, 0)), "TearDown")
			l.phase(corev1.PodFailed)
			l.condition(corev1.PodReady, "False PodFailed")
			l.state("a", "Error:3/0")
			l.state("b", "Completed:0/0")
		},
		"an end that comes before the start tells both": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			start := l.started("c", 0)
			l.want(l.turn(l.exited("c", 0, 0)), "TearDown")
			l.want(l.turn(start))
			l.phase(corev1.PodSucceeded)
			l.saw(1, "Started", "Container started")
		},
		"out of memory is told apart": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			end := l.exited("c", 0, 137)
			end.Status.OOMKilled = true
			l.turn(end)
			l.state("c", "OOMKilled:137/0")
		},
		"an init container that lost a process to the OOM killer has failed, whatever its exit code": func(t *testing.T) {
			l := newLife(t, newPod(never, "init:i", "c"))
			l.turn()
			end := l.exited("i", 0, 0)
			end.Status.OOMKilled = true
			l.want(l.turn(end), "TearDown")
			l.state("i", "OOMKilled:0/0")
			l.phase(corev1.PodFailed)
		},
		"and is restarted on failure": func(t *testing.T) {
			l := newLife(t, newPod(corev1.RestartPolicyOnFailure, "init:i", "c"))
			l.turn()
			end := l.exited("i", 0, 0)
			end.Status.OOMKilled = true
			l.turn(end)
			l.phase(corev1.PodPending)
			l.condition(corev1.PodInitialized, "False ContainersNotInitialized")
		},
		"a main container is judged by its exit code alone": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			end := l.exited("c", 0, 0)
			end.Status.OOMKilled = true
			l.turn(end)
			l.state("c", "OOMKilled:0/0")
			l.phase(corev1.PodSucceeded)
		},
		"a process that cannot be started fails with 128": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			end := l.exited("c", 0, 128)
			end.Status.StartError, end.Status.StartedAt = `exec: "/x": no such file`, time.Time{}
			l.want(l.turn(end), "TearDown")
			l.state("c", "StartError:128/0")
			l.phase(corev1.PodFailed)
			l.saw(1, "Failed", `Error: exec: "/x": no such file`)
			l.saw(0, "Started", "Container started")
		},
		"why a process could not be started is shown until it is tried again": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.turn()
			end := l.exited("c", 0, 128)
			end.Status.StartError, end.Status.StartedAt = `exec: "/x": no such file`, time.Time{}
			l.want(l.turn(end), "Launch c/1")
			l.state("c", "RunContainerError/0")
			if s := find(l.pod, "c").status; s.State.Waiting.Message != end.Status.StartError || s.LastTerminationState.Terminated.Reason != "StartError" {
				t.Errorf("%+v", s)
			}
			end.Attempt = 1
			l.want(l.turn(end))
			l.state("c", "CrashLoopBackOff/1")
			l.wakeIn(10 * time.Second)
		},
		"how a postStart hook failed is shown until the container is restarted": func(t *testing.T) {
			pod := newPod(onFailure, "c")
			pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"register", "me"}}},
			}
			l := newLife(t, pod)
			l.turn()
			l.turn(l.started("c", 0))
			l.want(l.turn(Observation{What: Checked, Container: "c", Check: PostStart, Verdict: true, Message: "no such host"}), "killed c/0")
			l.want(l.turn(l.exited("c", 0, 143)), "Launch c/1")
			l.state("c", "PostStartHookError/0")
			const want = `Exec lifecycle hook ([register me]) for Container "c" in Pod "p_ns(u)" failed - error: no such host`
			if got := find(l.pod, "c").status.State.Waiting.Message; got != want {
				t.Errorf("message %q, want %q", got, want)
			}
		},
		"a pod that goes on after a reboot gets another sandbox": func(t *testing.T) {
			for policy, events := range map[corev1.RestartPolicy]int{onFailure: 1, never: 0} {
				l := newLife(t, newPod(policy, "c"))
				l.turn()
				l.turn(Observation{What: SetUp, IPs: []string{"10.0.0.9"}}, l.started("c", 0))
				l.issued = Issued{}
				l.turn(Recover(l.pod, nil, true, l.now)...)
				l.saw(events, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
				if policy == onFailure {
					l.condition(corev1.PodReadyToStartContainers, "False")
				}
			}
		},
		"with OnFailure the first restart is at once": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.turn()
			l.turn(l.started("c", 0))
			l.want(l.turn(l.exited("c", 0, 1)), "Launch c/1")
			l.state("c", "Error:1/0")
			l.phase(corev1.PodRunning)
			l.want(l.turn(l.started("c", 1)))
			l.state("c", "running/1")
			if last := find(l.pod, "c").status.LastTerminationState.Terminated; last == nil || last.ExitCode != 1 {
				t.Errorf("last state is %+v", last)
			}
			l.want(l.turn(l.exited("c", 1, 0)), "TearDown")
			l.phase(corev1.PodSucceeded)
		},
		"restarts wait 10 s, 20 s, ... up to 5 minutes": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.turn()
			for n, delay := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300, 300} {
				l.turn(l.started("c", n))
				l.wait(2 * time.Second)
				got := l.turn(l.exited("c", n, 1))
				if n == 0 {
					l.want(got, "Launch c/1")
					continue
				}
				l.want(got)
				l.wakeIn(delay * time.Second)
				l.wait(delay*time.Second - 1)
				l.want(l.turn())
				l.wait(1)
				l.want(l.turn(), "Launch c/"+string(rune('0'+n+1)))
				l.state("c", "CrashLoopBackOff/"+string(rune('0'+n)))
			}
			l.saw(8, "BackOff", "Back-off restarting failed container c in pod p_ns(u)")
		},
		"ten minutes of running reset the back-off": func(t *testing.T) {
			l := newLife(t, newPod(always, "c"))
			l.turn()
			for n := range 4 {
				l.turn(l.started("c", n))
				l.turn(l.exited("c", n, 1))
				l.now = maxTime(l.now, l.wake)
				l.turn()
			}
			l.turn(l.started("c", 4))
			l.wait(10 * time.Minute)
			l.want(l.turn(l.exited("c", 4, 0)), "Launch c/5")
			l.turn(l.started("c", 5))
			l.want(l.turn(l.exited("c", 5, 0)))
			l.wakeIn(10 * time.Second)
			l.wait(10 * time.Second)
			l.want(l.turn(), "Launch c/6")
			l.turn(l.started("c", 6))
			l.turn(l.exited("c", 6, 0))
			l.wakeIn(20 * time.Second)
		},
		"the back-off does not need the daemon's memory": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.turn()
			for n := range 3 {
				l.turn(l.started("c", n))
				l.turn(l.exited("c", n, 1))
				l.now = maxTime(l.now, l.wake)
				l.turn()
			}
			l.turn(l.started("c", 3))
			l.turn(l.exited("c", 3, 1))
			l.wakeIn(40 * time.Second)
			l.issued = Issued{}
			l.want(l.turn())
			l.wakeIn(40 * time.Second)
		},
		"init containers run one after the other before the main ones": func(t *testing.T) {
			l := newLife(t, newPod(never, "init:i1", "init:i2", "c"))
			l.want(l.turn(), "Launch i1/0")
			l.state("c", "PodInitializing/0")
			l.condition(corev1.PodInitialized, "False ContainersNotInitialized")
			l.want(l.turn(l.started("i1", 0)))
			l.phase(corev1.PodPending)
			l.want(l.turn(l.exited("i1", 0, 0)), "Launch i2/0")
			l.want(l.turn(l.exited("i2", 0, 0)), "Launch c/0")
			l.condition(corev1.PodInitialized, "True")
			l.turn(l.started("c", 0))
			l.phase(corev1.PodRunning)
		},
		"with Never an init container that fails makes it Failed": func(t *testing.T) {
			l := newLife(t, newPod(never, "init:i1", "init:i2", "c"))
			l.turn()
			l.want(l.turn(l.exited("i1", 0, 1)), "TearDown")
			l.phase(corev1.PodFailed)
			l.state("c", "PodInitializing/0")
			l.condition(corev1.PodInitialized, "False ContainersNotInitialized")
		},
		"with OnFailure an init container that fails is run again": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "init:i", "c"))
			l.turn()
			l.want(l.turn(l.exited("i", 0, 1)), "Launch i/1")
			l.want(l.turn(l.exited("i", 1, 1)))
			l.state("i", "CrashLoopBackOff/1")
			l.phase(corev1.PodPending)
			l.wait(10 * time.Second)
			l.want(l.turn(), "Launch i/2")
			l.want(l.turn(l.exited("i", 2, 0)), "Launch c/0")
		},
		"with Always an init container that is done is not run again": func(t *testing.T) {
			l := newLife(t, newPod(always, "init:i", "c"))
			l.turn()
			l.want(l.turn(l.exited("i", 0, 0)), "Launch c/0")
			l.want(l.turn(l.exited("c", 0, 0)), "Launch c/1")
			l.phase(corev1.PodRunning)
		},
		"a pull that fails is shown, then backed off": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.want(l.turn(Observation{What: Pulling, Container: "c"}, l.failed("c", 0, ErrImagePull, "not found")))
			l.state("c", "ErrImagePull/0")
			l.saw(1, "Pulling", `Pulling image "busybox"`)
			l.saw(1, "Failed", `Failed to pull image "busybox": not found`)
			l.saw(1, "Failed", "Error: ErrImagePull")
			l.wakeIn(time.Second)
			l.wait(time.Second)
			l.want(l.turn())
			l.state("c", "ImagePullBackOff/0")
			l.saw(1, "BackOff", `Back-off pulling image "busybox"`)
			l.wakeIn(9 * time.Second)
			l.wait(9 * time.Second)
			l.want(l.turn(), "Launch c/0")
			l.turn(l.failed("c", 0, ErrImagePull, "not found"))
			l.wait(time.Second)
			l.turn()
			l.wakeIn(19 * time.Second)
			l.phase(corev1.PodPending)
		},
		"an image that was pulled says how long it took": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.turn(Observation{What: Pulled, Container: "c", Took: 1234567 * time.Microsecond, Image: runtime.Image{Size: 77}}, l.started("c", 0))
			l.saw(1, "Pulled", `Successfully pulled image "busybox" in 1.235s (1.235s including waiting). Image size: 77 bytes.`)
		},
		"an image that is never pulled says so": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.turn(l.failed("c", 0, ErrImageNeverPull, `Container image "busybox" is not present with pull policy of Never`))
			l.state("c", "ErrImageNeverPull/0")
			l.saw(1, "ErrImageNeverPull", `Container image "busybox" is not present with pull policy of Never`)
			l.saw(1, "Failed", "Error: ErrImageNeverPull")
		},
		"a container that could not be made is tried again, as the same attempt": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.want(l.turn(l.failed("c", 0, CreateContainerConfig, `configmap "x" not found`)))
			l.state("c", "CreateContainerConfigError/0")
			l.saw(1, "Failed", `Error: configmap "x" not found`)
			l.wakeIn(10 * time.Second)
			l.wait(10 * time.Second)
			l.want(l.turn(), "Launch c/0")
		},
		"a failure that is told of again is not that of the launch that came after it": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			failure := l.failed("c", 0, CreateContainer, "no")
			failure.At = l.now
			l.turn(failure)
			l.wait(10 * time.Second)
			l.want(l.turn(), "Launch c/0")
			l.delete(0)
			l.want(l.turn(failure), "killed c/0")
			l.phase(corev1.PodPending)
		},
		"a set-up that fails is tried again for all that waited for it": func(t *testing.T) {
			l := newLife(t, newPod(never, "a", "b"))
			l.turn()
			l.want(l.turn(
				Observation{What: SetUpFailed, Container: "a", Reason: "FailedMount", Message: "no such path"},
				Observation{What: SetUpFailed, Container: "b", Reason: "FailedMount", Message: "no such path"}))
			l.saw(1, "FailedMount", "no such path")
			l.state("a", "ContainerCreating/0")
			l.wait(10 * time.Second)
			l.want(l.turn(), "Launch a/0", "Launch b/0")
		},
		"deletion sends SIGTERM, then SIGKILL after the grace period": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.turn(l.started("c", 0))
			l.wait(700 * time.Millisecond)
			l.delete(5 * time.Second)
			l.want(l.turn(), "terminated c/0")
			l.saw(1, "Killing", "Stopping container c")
			l.wakeIn(5 * time.Second)
			l.wait(5*time.Second - 1)
			l.want(l.turn())
			l.wait(1)
			l.want(l.turn(), "killed c/0")
			l.want(l.turn())
			l.phase(corev1.PodRunning)
			l.want(l.turn(l.exited("c", 0, 137)), "TearDown")
			l.phase(corev1.PodFailed)
			l.saw(1, "Killing", "Stopping container c")
			l.condition(corev1.DisruptionTarget, "missing")
		},
		"a container that survives SIGKILL gets it again": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.turn(l.started("c", 0))
			l.delete(0)
			l.want(l.turn(), "killed c/0")
			l.wait(10 * time.Second)
			l.want(l.turn(), "killed c/0")
		},
		"a deleted pod whose containers exit with 0 is Succeeded, whatever its restart policy": func(t *testing.T) {
			l := newLife(t, newPod(always, "c"))
			l.turn()
			l.turn(l.started("c", 0))
			l.delete(5 * time.Second)
			l.turn()
			l.want(l.turn(l.exited("c", 0, 0)), "TearDown")
			l.phase(corev1.PodSucceeded)
		},
		"the stop signal is the image's": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			start := l.started("c", 0)
			start.Image.Config.StopSignal = "3"
			l.turn(start)
			l.issued = Issued{}
			l.delete(5 * time.Second)
			l.want(l.turn(), "quit c/0")
		},
		"the stop signal of the manifest wins": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			usr1 := corev1.SIGUSR1
			l.pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: &usr1}
			l.turn()
			start := l.started("c", 0)
			start.Image.Config.StopSignal = "SIGQUIT"
			l.turn(start)
			l.delete(5 * time.Second)
			l.want(l.turn(), "user defined signal 1 c/0")
		},
		"a pod deleted before anything started ends at once": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.turn(l.failed("c", 0, ErrImagePull, "no"))
			l.delete(30 * time.Second)
			l.want(l.turn(), "TearDown")
			l.phase(corev1.PodFailed)
			l.state("c", "ContainerStatusUnknown:137/0")
		},
		"a pod deleted while its launch is under way waits for what comes of it": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.delete(30 * time.Second)
			l.want(l.turn(), "terminated c/0")
			l.phase(corev1.PodPending)
			l.want(l.turn(Observation{What: Dropped, Container: "c"}), "TearDown")
			l.phase(corev1.PodFailed)
		},
		"a pod deleted while it waits for a restart keeps its last end": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.turn()
			l.turn(l.exited("c", 0, 1))
			l.turn(l.exited("c", 1, 4))
			l.state("c", "CrashLoopBackOff/1")
			l.delete(30 * time.Second)
			l.want(l.turn(), "TearDown")
			l.phase(corev1.PodFailed)
			l.state("c", "Error:4/1")
		},
		"a pod deleted before it was bound is Failed": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.pod.Spec.NodeName = ""
			l.delete(0)
			l.want(l.turn())
			l.phase(corev1.PodFailed)
			if !Done(l.pod) {
				t.Error("not done")
			}
		},
		"activeDeadlineSeconds ends it as Failed, even if it then exits with 0": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.pod.Spec.ActiveDeadlineSeconds, l.pod.Spec.TerminationGracePeriodSeconds = seconds64(60), seconds64(7)
			l.turn()
			l.turn(l.started("c", 0))
			l.wakeIn(time.Minute)
			l.wait(time.Minute)
			l.want(l.turn(), "terminated c/0")
			l.wakeIn(7 * time.Second)
			l.wait(time.Second)
			l.phase(corev1.PodRunning)
			l.want(l.turn(l.exited("c", 0, 0)), "TearDown")
			l.phase(corev1.PodFailed)
			if s := l.pod.Status; s.Reason != "DeadlineExceeded" || s.Message != messageDeadlineExceeded {
				t.Errorf("reason %q, message %q", s.Reason, s.Message)
			}
			l.saw(1, "DeadlineExceeded", messageDeadlineExceeded)
		},
		"activeDeadlineSeconds ends a pod that waits for its image": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.pod.Spec.ActiveDeadlineSeconds = seconds64(5)
			l.turn()
			l.turn(l.failed("c", 0, ErrImagePull, "no"))
			l.wait(5 * time.Second)
			l.want(l.turn(), "TearDown")
			l.phase(corev1.PodFailed)
			if l.pod.Status.Reason != "DeadlineExceeded" {
				t.Errorf("reason %q", l.pod.Status.Reason)
			}
		},
		"an end before the deadline counts, also when it is seen after it": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.pod.Spec.ActiveDeadlineSeconds = seconds64(60)
			l.turn()
			l.turn(l.started("c", 0))
			l.wait(30 * time.Second)
			end := l.exited("c", 0, 0)
			l.wait(time.Hour)
			l.want(l.turn(end), "TearDown")
			l.phase(corev1.PodSucceeded)
		},
		"a lost container makes a pod with Never Failed with DisruptionTarget": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.turn(l.started("c", 0))
			l.want(l.turn(Observation{What: Lost, Container: "c"}), "TearDown")
			l.phase(corev1.PodFailed)
			l.state("c", "ContainerStatusUnknown:137/0")
			l.condition(corev1.DisruptionTarget, "True TerminationByKubelet")
		},
		"a lost container is restarted in place with OnFailure": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.turn()
			l.turn(l.started("c", 0))
			l.want(l.turn(Observation{What: Lost, Container: "c"}), "Launch c/1")
			l.phase(corev1.PodRunning)
			l.condition(corev1.DisruptionTarget, "missing")
		},
		"a launch in doubt that is lost counts as one that was started": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.issued = Issued{}
			l.want(l.turn(Observation{What: Lost, Container: "c"}), "TearDown")
			l.condition(corev1.DisruptionTarget, "True TerminationByKubelet")
		},
		"after a restart of the daemon the same launches are asked for again": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "init:i", "c"))
			l.turn()
			l.issued = Issued{}
			l.want(l.turn(), "Launch i/0")
			l.turn(l.exited("i", 0, 0))
			l.issued = Issued{}
			l.want(l.turn(), "Launch c/0")
			l.turn(l.exited("c", 0, 1))
			l.issued = Issued{}
			l.want(l.turn(), "Launch c/1")
			l.turn(l.exited("c", 1, 0))
			l.issued = Issued{}
			l.want(l.turn(), "TearDown")
		},
		"observations of older attempts, of other pods and of unknown containers change nothing": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.turn()
			l.turn(l.exited("c", 0, 1))
			l.turn(l.started("c", 1))
			before := l.pod.DeepCopy()
			other := l.exited("c", 1, 1)
			other.UID = "other"
			l.want(l.turn(l.exited("c", 0, 9), l.started("c", 0), l.failed("c", 0, ErrImagePull, ""), l.failed("c", 1, ErrImagePull, ""),
				l.started("c", 1), Observation{What: Lost, Container: "c"}, other, Observation{What: Exited, Container: "nobody"}, Observation{What: TornDown}))
			if !equal(before, l.pod) {
				t.Errorf("before %+v\nafter %+v", before.Status, l.pod.Status)
			}
		},
		"termination messages are cut": func(t *testing.T) {
			l := newLife(t, newPod(never, "a", "b", "c", "d"))
			l.turn()
			end := l.exited("a", 0, 0)
			end.Status.Message = strings.Repeat("x", 5000)
			l.turn(end)
			if n := len(find(l.pod, "a").status.State.Terminated.Message); n != 3072 {
				t.Errorf("message has %d bytes", n)
			}
		},
		"a closed readiness gate keeps it from being Ready": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
			l.turn()
			l.turn(l.started("c", 0))
			l.condition(corev1.ContainersReady, "True")
			l.condition(corev1.PodReady, "False ReadinessGatesNotReady")
		},
	} {
		t.Run(rule, test)
	}
}

func TestSignalsOfImages(t *testing.T) {
	for name, want := range map[string]int{
		"": 15, "SIGTERM": 15, "TERM": 15, "quit": 3, "SIGQUIT": 3, "9": 9, "SIGRTMIN": 34, "SIGRTMIN+3": 37, "RTMAX-1": 63, "nonsense": 15, "99": 15,
	} {
		if got := int(signalNumber(name)); got != want {
			t.Errorf("%q is %d, want %d", name, got, want)
		}
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
