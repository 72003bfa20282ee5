package pod

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// life drives the pure half by hand: one pod, a clock, and what was asked of the worker.
type life struct {
	t      *testing.T
	pod    *corev1.Pod
	issued Issued
	now    time.Time
	events []Event
	wake   time.Time
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newPod(policy corev1.RestartPolicy, names ...string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID, pod.Generation = "ns", "p", "u", 1
	pod.Spec.NodeName, pod.Spec.RestartPolicy = "node", policy
	pod.Status.Phase = corev1.PodPending
	for _, name := range names {
		if name, sidecar := strings.CutPrefix(name, "side:"); sidecar {
			always := corev1.ContainerRestartPolicyAlways
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, Image: "busybox", RestartPolicy: &always})
		} else if name, init := strings.CutPrefix(name, "init:"); init {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, Image: "busybox"})
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "busybox"})
		}
	}
	return pod
}

func newLife(t *testing.T, pod *corev1.Pod) *life {
	return &life{t: t, pod: pod, now: epoch}
}

// turn is one turn of the loop: it returns what is asked of the worker, as "Launch c/0" or "SIGTERM c/0".
func (l *life) turn(observations ...duty.Observation) []string {
	l.t.Helper()
	for i := range observations {
		o := &observations[i]
		if o.UID == "" {
			o.UID = l.pod.UID
		}
		if o.At.IsZero() {
			o.At = l.now
		}
	}
	before := l.pod.DeepCopy()
	r := Apply(l.pod, &l.issued, observations, l.now)
	if changed := !equal(before, l.pod); changed != r.Changed {
		l.t.Errorf("Apply says changed=%v, but it is %v", r.Changed, changed)
	}
	l.events = append(l.events, r.Events...)
	actions, wake := Next(l.pod, &l.issued, l.now)
	l.issued.Record(actions, l.now)
	l.wake = wake
	var out []string
	for _, a := range actions {
		out = append(out, describe(a))
	}
	return out
}

func describe(a duty.Action) string {
	switch a.Kind {
	case duty.Launch:
		return fmt.Sprintf("Launch %s/%d", a.Container, a.Attempt)
	case duty.Stop:
		return fmt.Sprintf("%s %s/%d", unix.SignalName(a.Signal), a.Container, a.Attempt)
	case duty.RunPreStop:
		return fmt.Sprintf("hook %s/%d", a.Container, a.Attempt)
	}
	return string(a.Kind)
}

// want checks what one turn asks for.
func (l *life) want(got []string, want ...string) {
	l.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Errorf("asked for %v, want %v", got, want)
	}
}

func (l *life) wait(d time.Duration) { l.now = l.now.Add(d) }

// wakeIn checks when the loop is to look again.
func (l *life) wakeIn(d time.Duration) {
	l.t.Helper()
	if l.wake.Sub(l.now) != d {
		l.t.Errorf("wakes in %s, want %s", l.wake.Sub(l.now), d)
	}
}

func (l *life) phase(want corev1.PodPhase) {
	l.t.Helper()
	if l.pod.Status.Phase != want {
		l.t.Errorf("phase is %s, want %s", l.pod.Status.Phase, want)
	}
}

// state checks a container's state, given as "running/1" (restarts), "Error:1/0" or "CrashLoopBackOff/1".
func (l *life) state(name, want string) {
	l.t.Helper()
	c := find(l.pod, name)
	got := "?"
	switch s := c.status.State; {
	case s.Running != nil:
		got = "running"
	case s.Terminated != nil:
		got = fmt.Sprintf("%s:%d", s.Terminated.Reason, s.Terminated.ExitCode)
	case s.Waiting != nil:
		got = s.Waiting.Reason
	}
	if got = fmt.Sprintf("%s/%d", got, c.status.RestartCount); got != want {
		l.t.Errorf("container %s is %s, want %s", name, got, want)
	}
}

func (l *life) condition(t corev1.PodConditionType, want string) {
	l.t.Helper()
	got := "missing"
	if c := conditions.Find(l.pod.Status.Conditions, t); c != nil {
		got = strings.TrimSuffix(string(c.Status)+" "+c.Reason, " ")
	}
	if got != want {
		l.t.Errorf("condition %s is %s, want %s", t, got, want)
	}
}

// saw checks that there were that many events of a reason with a message.
func (l *life) saw(times int, reason, message string) {
	l.t.Helper()
	n := 0
	for _, e := range l.events {
		if e.Reason == reason && e.Message == message {
			n++
		}
	}
	if n != times {
		l.t.Errorf("%d events %s %q, want %d; there were %v", n, reason, message, times, l.events)
	}
}

// delete asks for the pod's deletion as the API does.
func (l *life) delete(grace time.Duration) {
	at, seconds := metav1.NewTime(l.now.Add(grace).Truncate(time.Second)), int64(grace/time.Second)
	l.pod.DeletionTimestamp, l.pod.DeletionGracePeriodSeconds = &at, &seconds
}

func (l *life) started(name string, attempt int) duty.Observation {
	return duty.Observation{
		What: duty.Started, Container: name, Attempt: attempt, Image: runtime.Image{Name: "docker.io/library/busybox:latest", ID: "sha256:1"},
		Status: runtime.Status{State: runtime.Running, StartedAt: l.now},
	}
}

func (l *life) exited(name string, attempt, code int) duty.Observation {
	began := l.now
	if s := find(l.pod, name).status; s != nil && s.State.Running != nil {
		began = s.State.Running.StartedAt.Time
	}
	return duty.Observation{What: duty.Exited, Container: name, Attempt: attempt,
		Status: runtime.Status{State: runtime.Exited, ExitCode: code, StartedAt: began, FinishedAt: l.now}}
}

func (l *life) failed(name string, attempt int, reason, message string) duty.Observation {
	return duty.Observation{What: duty.StartFailed, Container: name, Attempt: attempt, Reason: reason, Message: message}
}
