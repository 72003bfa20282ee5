package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
)

// Deadline returns when spec.activeDeadlineSeconds ends a pod as it stands; false if nothing is known to.
func Deadline(pod *corev1.Pod) (time.Time, bool) { return deadline(pod) }

// deadline returns when spec.activeDeadlineSeconds is over, counted from the pod's start on the node without the time for which it
// was paused. While it is paused, it has none.
func deadline(pod *corev1.Pod) (time.Time, bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return time.Time{}, false
	}
	if IsPaused(pod) {
		return time.Time{}, false
	}
	return pod.Status.StartTime.Add(podspec.Seconds(*pod.Spec.ActiveDeadlineSeconds)).Add(core.PausedFor(pod)), true
}

func deadlineStop(pod *corev1.Pod, now time.Time) (stop, bool) {
	at, ok := deadline(pod)
	if !ok || now.Before(at) {
		return stop{}, false
	}
	var grace time.Duration
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = podspec.Seconds(*g)
	}
	return stop{since: at, kill: at.Add(grace), grace: grace}, true
}

// pastDeadline reports whether a pod of which nothing runs any more was ended by its deadline, and not by itself before
// that.
func pastDeadline(pod *corev1.Pod, now time.Time) bool {
	at, ok := deadline(pod)
	if !ok || now.Before(at) {
		return false
	}
	if natural := phase(pod, false); natural != corev1.PodSucceeded && natural != corev1.PodFailed {
		return true
	}
	late := false
	workload(pod, func(c container) bool {
		end := c.ended()
		late = end != nil && !end.FinishedAt.Time.Before(at)
		return !late
	})
	return late
}
