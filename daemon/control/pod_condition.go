package control

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setPodCondition sets a condition of a pod and reports whether that is news.
func setPodCondition(obj *corev1.Pod, c corev1.PodCondition, now time.Time) bool {
	c.ObservedGeneration, c.LastTransitionTime = obj.Generation, metav1.NewTime(now)
	i := slices.IndexFunc(obj.Status.Conditions, func(old corev1.PodCondition) bool { return old.Type == c.Type })
	if i < 0 {
		obj.Status.Conditions = append(obj.Status.Conditions, c)
		return true
	}
	old := &obj.Status.Conditions[i]
	if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
		return false
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
	return true
}
