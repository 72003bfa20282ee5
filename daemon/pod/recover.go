package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// Attempt is one attempt of a container.
type Attempt struct {
	Container *corev1.Container
	Number    int
	Running   bool // its start is on record, and no end of it
	Started   bool // status.started
	ephemeral bool
}

// Newest returns the attempt of each container that the runtime may hold after a restart of the daemon: the one that is
// on record as running, or else the one that would be launched next. A container without a status has none.
func Newest(pod *corev1.Pod) []Attempt {
	var attempts []Attempt
	containers(pod, func(c container) bool {
		if c.status != nil {
			attempts = append(attempts, c.newest())
		}
		return true
	})
	return attempts
}

func (c container) newest() Attempt {
	a := Attempt{Container: c.spec, Number: c.next(), Running: c.running(), Started: !isFalse(c.status.Started), ephemeral: c.ephemeral}
	if a.Running {
		a.Number = int(c.status.RestartCount)
	}
	return a
}

// Recover compares the status of a pod with the containers of it that the runtime holds after a restart of the daemon,
// and returns what has happened in between.
//
// A start that is not on record is not reported: Next asks for it again, and the runtime finds the container. A pod
// that is to end, or is paused, is not asked to start anything, so its containers are reported as they are; and so are ephemeral ones,
// for which a pod that has ended meanwhile does not ask. With rebooted, launches that were due and are not held are Lost: nobody can
// know whether they had happened.
func Recover(pod *corev1.Pod, held []runtime.Status, rebooted bool, now time.Time) []duty.Observation {
	var seen []duty.Observation
	see := func(o duty.Observation) {
		o.UID, o.Namespace, o.Name, o.At = pod.UID, pod.Namespace, pod.Name, now
		seen = append(seen, o)
	}
	find := func(container string, attempt int) (runtime.Status, bool) {
		id := runtime.ContainerID(string(pod.UID), container, attempt)
		for _, s := range held {
			if s.ID == id {
				return s, true
			}
		}
		return runtime.Status{}, false
	}
	idle := isEnding(pod, now) || MayBePaused(pod)
	if terminated(pod) {
		see(duty.Observation{What: duty.HostStays})
	}
	for _, a := range Newest(pod) {
		s, ok := find(a.Container.Name, a.Number)
		o := duty.Observation{What: duty.Lost, Container: a.Container.Name, Attempt: a.Number, Status: s}
		switch {
		case !ok && a.Running:
			see(o)
		case !ok || !a.Running && !idle && !a.ephemeral:
		case s.State == runtime.Running && !a.Running:
			o.What = duty.Started
			see(o)
		case s.State == runtime.Exited:
			o.What = duty.Exited
			see(o)
		case s.State == runtime.Lost || a.Running && s.State != runtime.Running:
			see(o)
		}
	}
	if rebooted {
		due, _ := next(&planner{pod: pod, issued: &Issued{}, now: now, doubt: true})
		for _, a := range due {
			if _, ok := find(a.Container, a.Attempt); !ok && a.Kind == duty.Launch {
				see(duty.Observation{What: duty.Lost, Container: a.Container, Attempt: a.Attempt})
			}
		}
		if isSetUp(pod) {
			see(duty.Observation{What: duty.SandboxLost})
		}
	}
	return seen
}

// isEnding reports whether the running containers of a pod are to end, even if they are started anew afterwards.
func isEnding(pod *corev1.Pod, now time.Time) bool {
	if _, ok := stopping(pod, now); ok {
		return true
	}
	if _, ok := winding(pod); ok {
		return true
	}
	_, ok := restartsAll(pod)
	return ok
}
