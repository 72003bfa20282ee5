package worker

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// alone reports whether containers of the pod run one at a time, and no container of another pod can get hold of their
// files. File descriptors are passed through UNIX sockets, which are found in a network namespace or on a volume, and
// opened through /proc. A device may come with mounts of the host's.
func alone(obj *corev1.Pod, s *Sandbox) bool {
	together := len(obj.Spec.Containers) + len(obj.Spec.EphemeralContainers)
	for i := range obj.Spec.InitContainers {
		if podspec.IsSidecar(&obj.Spec.InitContainers[i]) {
			together++
		}
	}
	shared := func(v corev1.Volume) bool {
		own := v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
		return !own
	}
	return together == 1 && !s.HostNetwork && !obj.Spec.HostPID && len(s.Devices) == 0 &&
		!slices.ContainsFunc(obj.Spec.Volumes, shared)
}
