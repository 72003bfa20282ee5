package pod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// Done reports whether nothing of the pod is left on the host, and nothing will be put there any more: its object may
// be removed once it has no finalizers.
func Done(pod *corev1.Pod) bool {
	return !podspec.Bound(pod) || podspec.Ended(pod) && tornDown(pod)
}

// phase returns the phase that follows from the containers' states. With stopping no container will be started any
// more.
func phase(pod *corev1.Pod, stopping bool) corev1.PodPhase {
	for i := range pod.Spec.InitContainers {
		c := initContainer(pod, i)
		switch {
		case c.sidecar():
			if !c.begun() && !stopping {
				return corev1.PodPending
			}
			continue
		case c.succeeded(pod):
			continue
		}
		if end := c.ended(); end != nil && (stopping || !restarts(pod, c, end)) {
			return corev1.PodFailed
		}
		if stopping && !c.running() {
			return corev1.PodFailed
		}
		return corev1.PodPending
	}

	var running, fresh, restarting, failed int
	for i := range pod.Spec.Containers {
		c := mainContainer(pod, i)
		end := c.ended()
		switch {
		case c.running():
			running++
		case end == nil:
			fresh++
		case !stopping && restarts(pod, c, end):
			restarting++
		case end.ExitCode != 0:
			failed++
		}
	}
	switch {
	case fresh > 0 && !stopping:
		return corev1.PodPending
	case running > 0 || restarting > 0:
		return corev1.PodRunning
	case fresh > 0 || failed > 0:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// resumed returns the phase of a pod some containers of which may have been reset: it stays Running.
func resumed(pod *corev1.Pod) corev1.PodPhase {
	next := phase(pod, false)
	if next == corev1.PodPending && startsAnew(pod) {
		return corev1.PodRunning
	}
	return next
}

// lingering returns the phase of a pod that has come to its end while something of it still runs: the final phase is
// set only after that. That the pod has run may become known together with its end.
func lingering(pod *corev1.Pod) corev1.PodPhase {
	for i := range pod.Spec.Containers {
		if mainContainer(pod, i).begun() {
			return corev1.PodRunning
		}
	}
	return pod.Status.Phase
}

// initialized reports whether all init containers are done, and all sidecars have begun.
func initialized(pod *corev1.Pod) bool {
	for i := range pod.Spec.InitContainers {
		if c := initContainer(pod, i); !c.succeeded(pod) && (!c.sidecar() || !c.begun()) {
			return false
		}
	}
	return true
}
