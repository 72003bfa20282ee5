package pod

import corev1 "k8s.io/api/core/v1"

const reasonEvicted = "Evicted"

// evict ends a pod that takes more of this machine than it may. The status says so at once, and the pod has failed once
// nothing of it runs any more, whatever its containers end with. With the condition DisruptionTarget a Job's failure
// policy can distinguish this from a failure of the pod's own.
func (f *folder) evict(why string) {
	s := &f.pod.Status
	if s.Reason == reasonEvicted {
		return
	}
	s.Reason, s.Message = reasonEvicted, why
	f.changed = true
	f.condition(corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: corev1.PodReasonTerminationByKubelet, Message: why,
	})
	f.warning(container{}, reasonEvicted, why)
}

// evicted reports whether a pod is being evicted. Its containers have no grace period.
func evicted(pod *corev1.Pod) bool { return pod.Status.Reason == reasonEvicted }
