package pod

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

const rejected = "Pod was rejected: "

// reject ends a pod of which nothing has run. Its containers have an empty state, since they have never existed.
func (f *folder) reject(o duty.Observation) {
	if i := f.issued.find(o.Container); i != nil && i.launched == o.Attempt+1 {
		i.launched = 0
	}
	if isRejected(f.pod) {
		return
	}
	f.pod.Status.Reason, f.pod.Status.Message = o.Reason, rejected+o.Message
	f.changed = true
	containers(f.pod, func(c container) bool {
		c.status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
		return true
	})
	f.warning(container{}, o.Reason, o.Message)
}

// isRejected reports whether a pod is to end because this machine does not take it.
func isRejected(pod *corev1.Pod) bool { return strings.HasPrefix(pod.Status.Message, rejected) }
