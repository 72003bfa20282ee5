// Package conditions finds and sets conditions in the status of older kinds: of Jobs, pods and namespaces. For
// conditions of type metav1.Condition there is apimachinery's package meta.
//
// A list of conditions comes in, and goes out with one of them set; nothing else is touched.
package conditions

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition is a condition of one of these kinds.
type Condition interface {
	corev1.PodCondition | corev1.NamespaceCondition | batchv1.JobCondition
}

// Find returns the condition of a type in a list, nil if there is none.
func Find[T Condition, S ~string](list []T, conditionType S) *T {
	for i := range list {
		if partsOf(&list[i]).name == string(conditionType) {
			return &list[i]
		}
	}
	return nil
}

// Set replaces the condition of the same type, or appends one, and reports whether its status, reason or message has
// changed. If none has, the list is left alone. LastTransitionTime, which the caller sets to the current time, keeps
// its old value unless the status changes.
func Set[T Condition](list *[]T, c T) bool {
	next := partsOf(&c)
	old := Find(*list, next.name)
	if old == nil {
		*list = append(*list, c)
		return true
	}
	was := partsOf(old)
	if was.status == next.status {
		if was.reason == next.reason && was.message == next.message {
			return false
		}
		*next.transition = *was.transition
	}
	*old = c
	return true
}

// SetCopy is Set for a list that others may be reading: if it changes, it is copied first.
func SetCopy[T Condition](list *[]T, c T) bool {
	next := slices.Clone(*list)
	if !Set(&next, c) {
		return false
	}
	*list = next
	return true
}

type parts struct {
	name, reason, message string
	status                corev1.ConditionStatus
	transition            *metav1.Time
}

func partsOf(condition any) parts {
	switch c := condition.(type) {
	case *corev1.PodCondition:
		return parts{string(c.Type), c.Reason, c.Message, c.Status, &c.LastTransitionTime}
	case *corev1.NamespaceCondition:
		return parts{string(c.Type), c.Reason, c.Message, c.Status, &c.LastTransitionTime}
	case *batchv1.JobCondition:
		return parts{string(c.Type), c.Reason, c.Message, c.Status, &c.LastTransitionTime}
	}
	panic("conditions: a type that Condition does not list")
}
