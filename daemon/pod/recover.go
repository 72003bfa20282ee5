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
// A start that is not on record is reported as Held: Next asks for it again, and the runtime finds the container. A pod
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
	idle := isIdle(pod, now)
	if terminated(pod) {
		see(duty.Observation{What: duty.HostStays})
	}
	for _, a := range Newest(pod) {
		s, ok := find(a.Container.Name, a.Number)
		o := duty.Observation{What: duty.Lost, Container: a.Container.Name, Attempt: a.Number, Status: s}
		switch {
		case !ok && a.Running:
			see(o)
		case !ok:
		case !a.Running && !idle && !a.ephemeral:
			if s.State == runtime.Running || s.State == runtime.Exited {
				o.What = duty.Held
				see(o)
			}
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

// isIdle reports whether a pod is not asked to start anything, because it is to end or is paused.
func isIdle(pod *corev1.Pod, now time.Time) bool { return isEnding(pod, now) || MayBePaused(pod) }

// takeHeld reports the containers that are Held and will not be launched any more, as the pod is idle since: they are ended,
// or paused, like others.
func (f *folder) takeHeld() {
	var held []issued
	for _, i := range f.issued.look().containers {
		if i.held != nil {
			held = append(held, i)
		}
	}
	for _, i := range held {
		c := find(f.pod, i.name)
		switch {
		case c.spec == nil || c.running() || i.held.Attempt != c.next():
			f.issued.of(i.name).held = nil
		case i.launched == 0 && isIdle(f.pod, f.now):
			o := *i.held
			f.issued.of(i.name).held = nil
			if o.What = duty.Started; o.Status.State == runtime.Exited {
				o.What = duty.Exited
			}
			f.foldContainer(o)
		}
	}
}

// dropped folds in that a launch was called off. What has called it off has done nothing to a container that is Held.
func (f *folder) dropped(o duty.Observation) {
	i := f.issued.find(o.Container)
	if i == nil || i.launched != o.Attempt+1 {
		return
	}
	i.launched = 0
	if i.held != nil {
		i.stopAnew()
	}
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
