package clusters

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Shown reports whether a pod only shows one of a cluster, which is its node: its spec.schedulerName is that of the cluster, as the managedBy
// of its Job. Nothing of it is ever started here, whatever else it says; neither field ever changes.
func Shown(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && IsScheduler(p.Spec.SchedulerName)
}

// Scheduler returns the spec.schedulerName of pods that show those of a cluster.
func Scheduler(cluster string) string { return Manager(cluster) }

// IsScheduler reports whether a spec.schedulerName is one of those.
func IsScheduler(name string) bool { return strings.HasPrefix(name, prefix) }
