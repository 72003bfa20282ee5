package pod

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// minimumGrace is what a container gets to end after its signal, also when a hook of its own, or for a sidecar those that were
// stopped before it, have used up the pod's grace.
const minimumGrace = 2 * time.Second

// sidecar tells whether it is an init container that is not waited for, but runs for as long as the main containers do
// (initContainers[].restartPolicy).
func (c container) sidecar() bool {
	return c.init && podspec.IsSidecar(c.spec)
}

// begun tells whether any attempt of the container has been started.
func (c container) begun() bool { return c.running() || c.ended() != nil }

// passed tells whether the containers after this init container may be started: it is done, or it is a sidecar that has
// started. One that has ended later holds nobody up.
func (c container) passed(pod *corev1.Pod) bool {
	if !c.sidecar() {
		return c.succeeded()
	}
	return c.running() && !isFalse(c.status.Started) || c.begun() && begunAfter(pod, c)
}

// begunAfter tells whether a container that comes after this init container has been started.
func begunAfter(pod *corev1.Pod, c container) bool {
	after, found := false, false
	containers(pod, func(other container) bool {
		found = after && other.begun()
		after = after || other.spec == c.spec
		return !found
	})
	return found
}

// winding says that nothing but sidecars is left of a pod, which are to end then, within its grace period.
func winding(pod *corev1.Pod) (stop, bool) {
	if !slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return podspec.IsSidecar(&c) }) {
		return stop{}, false
	}
	if natural := phase(pod, false); natural != corev1.PodSucceeded && natural != corev1.PodFailed {
		return stop{}, false
	}
	var s stop
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		s.grace = time.Duration(*g) * time.Second
	}
	containers(pod, func(c container) bool {
		if end := c.ended(); end != nil && !c.sidecar() && end.FinishedAt.After(s.since) {
			s.since = end.FinishedAt.Time
		}
		return true
	})
	s.kill = s.since.Add(s.grace)
	return s, true
}

// inTurn tells whether a container of a pod that ends is to be stopped now: sidecars wait for the main containers and for
// the sidecars that were started after them.
func inTurn(pod *corev1.Pod, issued *Issued, c container) bool {
	if !c.sidecar() {
		return true
	}
	after, free := false, true
	containers(pod, func(other container) bool {
		free = !after || !other.running() && !issued.underWay(other)
		after = after || other.spec == c.spec
		return free
	})
	return free
}
