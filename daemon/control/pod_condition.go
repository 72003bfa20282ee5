package control

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/conditions"
)

// setPodCondition sets a condition of a pod and reports whether this changes anything.
func setPodCondition(obj *corev1.Pod, c corev1.PodCondition, now time.Time) bool {
	c.Message = conditions.Brief(c.Message)
	c.ObservedGeneration, c.LastTransitionTime = obj.Generation, metav1.NewTime(now)
	return conditions.Set(&obj.Status.Conditions, c)
}
