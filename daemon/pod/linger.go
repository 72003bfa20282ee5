package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
)

// mostGrace is how long a pod may take for its end that others wait for, whatever its spec says: that may say 68 years.
const mostGrace = time.Hour

// GraceForOthers returns the grace period of a pod that makes room for others, or whose namespace is removed, in seconds.
func GraceForOthers(pod *corev1.Pod) int64 {
	return min(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0), int64(mostGrace/time.Second))
}

// Lingers reports whether a pod that is being deleted may take longer than one that makes room for others.
func Lingers(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false
	}
	most := mostGrace
	if s, err := core.SignalOf(pod.Annotations); err == nil && s != nil {
		most += s.Lead
	}
	return podspec.Seconds(*pod.DeletionGracePeriodSeconds) > most
}

// MakesRoom reports whether a pod is to end, and will use nothing of the node before long.
func MakesRoom(pod *corev1.Pod) bool { return makesWay(pod) || Ends(pod) && !Lingers(pod) }
