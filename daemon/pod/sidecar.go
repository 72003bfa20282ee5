package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// sidecar reports whether it is an init container that runs for as long as the main containers do
// (initContainers[].restartPolicy).
func (c container) sidecar() bool {
	return c.init && podspec.IsSidecar(c.spec)
}

// begun reports whether any attempt of the container has been started.
func (c container) begun() bool { return c.running() || c.ended() != nil }

// passed reports whether the containers after this init container may be started: it has succeeded, or it is a sidecar
// that has started. A sidecar that ends later does not hold them up.
func (c container) passed(pod *corev1.Pod) bool {
	if !c.sidecar() {
		return c.succeeded(pod)
	}
	return c.running() && !isFalse(c.status.Started) || c.begun() && begunAfter(pod, c)
}

// begunAfter reports whether a container that comes after this init container has been started.
func begunAfter(pod *corev1.Pod, c container) bool {
	after, found := false, false
	workload(pod, func(other container) bool {
		found = after && other.begun()
		after = after || other.spec == c.spec
		return !found
	})
	return found
}

// winding reports whether only sidecars and ephemeral containers are left of a pod. They are to end then, within the
// pod's grace period.
func winding(pod *corev1.Pod) (stop, bool) {
	hasSidecar := slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return podspec.IsSidecar(&c) })
	if !hasSidecar && len(pod.Spec.EphemeralContainers) == 0 {
		return stop{}, false
	}
	if natural := phase(pod, false); natural != corev1.PodSucceeded && natural != corev1.PodFailed {
		return stop{}, false
	}
	var s stop
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		s.grace = podspec.Seconds(*g)
	}
	workload(pod, func(c container) bool {
		if end := c.ended(); end != nil && !c.sidecar() && end.FinishedAt.After(s.since) {
			s.since = end.FinishedAt.Time
		}
		return true
	})
	s.kill = s.since.Add(s.grace)
	return s, true
}

// inTurn reports whether a container of a pod that ends is to be stopped now: a sidecar waits for the main containers
// and for the sidecars that were started after it.
func inTurn(pod *corev1.Pod, issued *Issued, c container) bool {
	if !c.sidecar() {
		return true
	}
	after, free := false, true
	workload(pod, func(other container) bool {
		free = !after || !other.running() && !issued.underWay(other)
		after = after || other.spec == c.spec
		return free
	})
	return free
}
