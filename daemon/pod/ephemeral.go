package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// ephemeralContainers calls fn for each container that was added to the pod (PodSpec.EphemeralContainers, KEP-277) and
// has a status, until it returns false. Such a container is started once, whatever the others do, and nothing depends
// on it: neither the phase nor any condition, nor whether other containers are started.
func ephemeralContainers(pod *corev1.Pod, fn func(container) bool) {
	for i := range pod.Spec.EphemeralContainers {
		spec := podspec.Ephemeral(&pod.Spec, i)
		status := statusOf(pod.Status.EphemeralContainerStatuses, spec.Name, i)
		if status != nil && !fn(container{spec: spec, status: status, ephemeral: true}) {
			return
		}
	}
}

// admit sets the first status of ephemeral containers that were added to the pod.
func (f *folder) admit() {
	s := &f.pod.Status
	if len(s.EphemeralContainerStatuses) == len(f.pod.Spec.EphemeralContainers) {
		return
	}
	specs := make([]corev1.Container, len(f.pod.Spec.EphemeralContainers))
	for i := range specs {
		specs[i] = *podspec.Ephemeral(&f.pod.Spec, i)
	}
	s.EphemeralContainerStatuses = newStatuses(specs, s.EphemeralContainerStatuses, firstReason(f.pod))
	for i := range s.EphemeralContainerStatuses {
		s.EphemeralContainerStatuses[i].Started = nil // nothing probes it
	}
	slices.SortFunc(s.EphemeralContainerStatuses,
		func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
	f.changed = true
}

// launchEphemeral starts the ephemeral containers that have not been started yet.
func (p *planner) launchEphemeral() {
	ephemeralContainers(p.pod, func(c container) bool {
		p.due(c)
		return true
	})
}
