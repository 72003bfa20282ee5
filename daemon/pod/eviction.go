package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

const (
	reasonEvicted = "Evicted"
	// reasonPreempting is that of a pod that makes room for a critical pod which was bound to the node without regard to
	// what is free.
	reasonPreempting = "Preempting"

	// evictionGrace is how long the containers of an evicted pod have, whatever its own grace period is: a kubelet's
	// immediateEvictionGracePeriodSeconds, for limits that a pod exceeds and for hard thresholds of the node alike. It bounds
	// the preStop hooks too; after its signal each container has minimumGrace.
	evictionGrace = time.Second

	messagePreempting = "Preempted in order to admit critical pod"
	messagePreempted  = "Pod was preempted by Kubelet to accommodate a critical pod."
)

// evict ends a pod that takes more of this machine than it may. The status says so at once, and the pod has failed once
// nothing of it runs any more, whatever its containers end with. With the condition DisruptionTarget a Job's failure
// policy can distinguish this from a failure of the pod's own.
func (f *folder) evict(why string) {
	f.disrupt(reasonEvicted, why, why)
}

// preempt ends a pod in the same way, but it has its grace period.
func (f *folder) preempt() { f.disrupt(reasonPreempting, messagePreempting, messagePreempted) }

func (f *folder) disrupt(reason, message, condition string) {
	s := &f.pod.Status
	if s.Reason == reasonEvicted || s.Reason == reason || s.Reason == reasonTerminated {
		return
	}
	s.Reason, s.Message = reason, message
	f.changed = true
	f.condition(corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: corev1.PodReasonTerminationByKubelet, Message: condition,
	})
	f.warning(container{}, reason, message)
}

// evicted reports whether a pod is being evicted.
func evicted(pod *corev1.Pod) bool { return pod.Status.Reason == reasonEvicted }

// makesWay reports whether a pod ends for what the node needs or it must not take.
func makesWay(pod *corev1.Pod) bool {
	return evicted(pod) || pod.Status.Reason == reasonPreempting || terminated(pod)
}

// disrupted returns how a pod ends that is evicted, makes room for a critical one, or whose machine goes down; false if it is none
// of these.
func disrupted(pod *corev1.Pod) (stop, bool) {
	if !makesWay(pod) {
		return stop{}, false
	}
	grace := evictionGrace
	if !evicted(pod) {
		grace = podspec.Seconds(GraceForOthers(pod))
	}
	var since time.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			since = c.LastTransitionTime.Time
		}
	}
	kill := since.Add(grace)
	if evicted(pod) {
		kill = kill.Add(minimumGrace) // the condition has whole seconds, of which a second is much
	}
	return stop{since: since, kill: kill, grace: grace}, true
}

// Ends reports whether a pod is to end.
func Ends(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil || makesWay(pod) }
