package pod

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

func equal(a, b *corev1.Pod) bool { return equality.Semantic.DeepEqual(a.Status, b.Status) }

func seconds64(n int64) *int64 { return &n }

// What a reader would want to see of a pod's life is among the cases (cases_test.go); this is the rest.
func TestPodLife(t *testing.T) {
	never, onFailure, always := corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure, corev1.RestartPolicyAlways
	for rule, test := range map[string]func(t *testing.T){
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
		"observations of older attempts, of other pods and of unknown containers change nothing": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.turn()
			l.turn(l.exited("c", 0, 1))
			l.turn(l.started("c", 1))
			before := l.pod.DeepCopy()
			other := l.exited("c", 1, 1)
			other.UID = "other"
			l.want(l.turn(l.exited("c", 0, 9), l.started("c", 0), l.failed("c", 0, duty.ErrImagePull, ""), l.failed("c", 1, duty.ErrImagePull, ""),
				l.started("c", 1), duty.Observation{What: duty.Lost, Container: "c"}, other,
				duty.Observation{What: duty.Exited, Container: "nobody"}, duty.Observation{What: duty.TornDown}))
			if !equal(before, l.pod) {
				t.Errorf("before %+v\nafter %+v", before.Status, l.pod.Status)
			}
		},
		"what a launch lacked may be there before its back-off is over": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			l.want(l.turn(l.failed("c", 0, duty.CreateContainerConfig, `configmap "x" not found`)))
			l.wakeIn(10 * time.Second)
			l.issued.Retry()
			l.want(l.turn(), "Launch c/0")
		},
		"the addresses are those of the latest sandbox": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.turn()
			for _, ips := range [][]string{{"10.0.0.9", "fd00::9"}, {"10.0.0.9", "fd00::9"}, {"10.0.0.9"}, {"10.0.0.8"}, {}} {
				l.turn(duty.Observation{What: duty.SetUp, IPs: ips})
				l.condition(corev1.PodReadyToStartContainers, "True")
				var got []string
				for _, ip := range l.pod.Status.PodIPs {
					got = append(got, ip.IP)
				}
				if len(ips) == 0 { // the network is that of the host
					ips = []string{"10.0.0.8"}
				}
				if !slices.Equal(got, ips) || l.pod.Status.PodIP != ips[0] {
					t.Errorf("addresses %v, want %v", l.pod.Status.PodIPs, ips)
				}
			}
		},
		"the status says what a container was started with": func(t *testing.T) {
			pod := newPod(never, "c")
			recursive := func(r corev1.RecursiveReadOnlyMode) *corev1.RecursiveReadOnlyMode { return &r }
			disabled, enabled := recursive(corev1.RecursiveReadOnlyDisabled), recursive(corev1.RecursiveReadOnlyEnabled)
			pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
				{Name: "a", MountPath: "/a"},
				{Name: "b", MountPath: "/b", ReadOnly: true},
				{Name: "c", MountPath: "/c", ReadOnly: true, RecursiveReadOnly: disabled},
				{Name: "d", MountPath: "/d", ReadOnly: true, RecursiveReadOnly: recursive(corev1.RecursiveReadOnlyIfPossible)},
			}
			whole := sized("1Gi")
			pod.Spec.Resources = &whole
			l := newLife(t, pod)
			l.turn()
			o := l.started("c", 0)
			o.Status.User = &runtime.User{UID: 1, GID: 2, Groups: []uint32{2, 3}}
			l.turn(o)
			c := find(l.pod, "c").status
			if u := c.User.Linux; u.UID != 1 || u.GID != 2 || !slices.Equal(u.SupplementalGroups, []int64{2, 3}) {
				t.Errorf("user %+v", u)
			}
			if want := []corev1.VolumeMountStatus{
				{Name: "a", MountPath: "/a"},
				{Name: "b", MountPath: "/b", ReadOnly: true, RecursiveReadOnly: disabled},
				{Name: "c", MountPath: "/c", ReadOnly: true, RecursiveReadOnly: disabled},
				{Name: "d", MountPath: "/d", ReadOnly: true, RecursiveReadOnly: enabled},
			}; !equality.Semantic.DeepEqual(c.VolumeMounts, want) {
				t.Errorf("mounts %+v", c.VolumeMounts)
			}
			if s := &l.pod.Status; !equality.Semantic.DeepEqual(s.Resources, &whole) || !equality.Semantic.DeepEqual(s.AllocatedResources, whole.Requests) {
				t.Errorf("resources of the whole pod: %v, %v", s.Resources, s.AllocatedResources)
			}
		},
		"readiness gates are opened by others": func(t *testing.T) {
			pod := newPod(never, "c")
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/a"}, {ConditionType: "example.com/b"}}
			l := newLife(t, pod)
			l.turn()
			l.turn(l.started("c", 0))
			for _, step := range []struct {
				a, b corev1.ConditionStatus
				want string
			}{
				{"", "", `corresponding condition of pod readiness gate "example.com/a" does not exist., ` +
					`corresponding condition of pod readiness gate "example.com/b" does not exist.`},
				{corev1.ConditionTrue, corev1.ConditionFalse, `the status of pod readiness gate "example.com/b" is not "True", but False`},
				{corev1.ConditionTrue, corev1.ConditionTrue, ""},
				{corev1.ConditionUnknown, corev1.ConditionTrue, `the status of pod readiness gate "example.com/a" is not "True", but Unknown`},
			} {
				if step.a != "" {
					conditions.Set(&l.pod.Status.Conditions, corev1.PodCondition{Type: "example.com/a", Status: step.a})
					conditions.Set(&l.pod.Status.Conditions, corev1.PodCondition{Type: "example.com/b", Status: step.b})
				}
				l.turn()
				c := conditions.Find(l.pod.Status.Conditions, corev1.PodReady)
				if opened := c.Status == corev1.ConditionTrue; c.Message != step.want || opened != (step.want == "") {
					t.Errorf("%s %q, want %q", c.Status, c.Message, step.want)
				}
				l.condition(corev1.ContainersReady, "True")
			}
		},
		"a client may have written the containers in another order": func(t *testing.T) {
			l := newLife(t, newPod(never, "a", "b", "c"))
			l.turn()
			l.turn(l.started("a", 0), l.started("b", 0), l.started("c", 0))
			slices.Reverse(l.pod.Status.ContainerStatuses)
			l.turn(l.exited("a", 0, 1), l.exited("c", 0, 3))
			l.state("a", "Error:1/0")
			l.state("b", "running/0")
			l.state("c", "Error:3/0")
		},
		"what is left of a pod that is given up is told as unknown": func(t *testing.T) {
			for _, ended := range []bool{false, true} {
				l := newLife(t, newPod(never, "init:i", "a", "b"))
				l.turn()
				l.turn(l.exited("i", 0, 0))
				l.turn(l.started("a", 0), l.exited("b", 0, 0))
				want, a := corev1.PodFailed, "ContainerStatusUnknown:137/0"
				if ended {
					l.turn(l.exited("a", 0, 0))
					want, a = corev1.PodSucceeded, "Completed:0/0"
				}
				GiveUp(l.pod, l.now)
				l.phase(want)
				l.state("i", "Completed:0/0")
				l.state("a", a)
				l.state("b", "Completed:0/0")
				l.condition(corev1.PodReady, "False PodFailed")
				l.condition(corev1.PodReadyToStartContainers, "False PodSandboxNotReady")
				if c := find(l.pod, "a").status; c.Ready || !Done(l.pod) {
					t.Errorf("%+v", l.pod.Status)
				}
			}
		},
		"a condition keeps its time until its status changes": func(t *testing.T) {
			l := newLife(t, newPod(never, "init:i", "c"))
			at := func(kind corev1.PodConditionType, message string, since time.Time) {
				t.Helper()
				if c := conditions.Find(l.pod.Status.Conditions, kind); !c.LastTransitionTime.Time.Equal(since) || c.Message != message {
					t.Errorf("%s since %s: %q, want since %s: %q", kind, c.LastTransitionTime, c.Message, since, message)
				}
			}
			l.turn()
			begin := l.now
			at(corev1.PodInitialized, "containers with incomplete status: [i]", begin)
			l.wait(time.Minute)
			l.turn(l.exited("i", 0, 0))
			at(corev1.PodInitialized, "", l.now)
			at(corev1.ContainersReady, "containers with unready status: [c]", begin)
			l.wait(time.Minute)
			l.turn(l.exited("c", 0, 1)) // for another reason
			at(corev1.ContainersReady, "", begin)
		},
		"how an attempt ended names its container": func(t *testing.T) {
			l := newLife(t, newPod(never, "init:i", "side:s", "c"))
			l.turn()
			for _, name := range []string{"i", "s", "c"} {
				l.turn(l.started(name, 0))
				id := find(l.pod, name).status.ContainerID
				l.turn(l.exited(name, 0, 0))
				s := find(l.pod, name).status
				if last := s.State.Terminated; last == nil || last.ContainerID != id || id == "" || *s.Started || s.Ready != (name == "i") {
					t.Errorf("%+v, want %s", s, id)
				}
				if name == "s" {
					l.turn(l.started(name, 1))
				}
			}
			for _, e := range l.events {
				if e.FieldPath == "" || e.Reason == "Created" && e.Message != "Container created" {
					t.Errorf("%+v", e)
				}
			}
			l.saw(4, "Created", "Container created")
			if e := l.events[0]; e.FieldPath != "spec.initContainers{i}" {
				t.Errorf("%+v", e)
			}
		},
		"a lost attempt keeps what is known of it": func(t *testing.T) {
			l := newLife(t, newPod(onFailure, "c"))
			l.turn()
			l.turn(l.started("c", 0))
			began := l.now
			l.wait(time.Minute)
			l.turn(duty.Observation{What: duty.Lost, Container: "c"})
			if end := find(l.pod, "c").status.State.Terminated; !end.StartedAt.Time.Equal(began) || !end.FinishedAt.Time.Equal(l.now) {
				t.Errorf("%+v", end)
			}
			l.turn(duty.Observation{What: duty.Lost, Container: "c", Attempt: 1})
			s := find(l.pod, "c").status
			if want := "containerd://" + runtime.ContainerID("u", "c", 1); s.ContainerID != want || s.RestartCount != 1 {
				t.Errorf("%+v, want %s", s, want)
			}
		},
		"a start forgets the launches that have failed": func(t *testing.T) {
			l := newLife(t, newPod(always, "c"))
			l.turn()
			for range 3 {
				l.turn(l.failed("c", 0, duty.CreateContainer, "no"))
				l.now = l.wake
				l.want(l.turn(), "Launch c/0")
			}
			l.turn(l.started("c", 0))
			l.want(l.turn(l.exited("c", 0, 0)), "Launch c/1")
			l.turn(l.failed("c", 1, duty.CreateContainer, "no"))
			l.wakeIn(10 * time.Second)
		},
		"a pod that is deleted did not end by its deadline": func(t *testing.T) {
			l := newLife(t, newPod(never, "c"))
			l.pod.Spec.ActiveDeadlineSeconds = seconds64(60)
			l.turn()
			l.turn(l.started("c", 0))
			l.wait(50 * time.Second)
			l.delete(30 * time.Second)
			l.turn()
			l.wait(20 * time.Second)
			l.turn(l.exited("c", 0, 0))
			l.phase(corev1.PodSucceeded)
			if l.pod.Status.Reason != "" {
				t.Errorf("%+v", l.pod.Status)
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
	} {
		t.Run(rule, test)
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
