package pod

import corev1 "k8s.io/api/core/v1"

const reasonEvicted = "Evicted"

// evict ends a pod that takes more of this machine than it may. It is on record at once; the pod has failed when nothing
// of it runs any more, whatever its containers end with. It carries DisruptionTarget, so that a Job's failure policy can
// tell it from a failure of its own.
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

// evicted tells whether a pod is being evicted. Its containers have no time left.
func evicted(pod *corev1.Pod) bool { return pod.Status.Reason == reasonEvicted }
