// Package conditions changes the conditions of a status, whatever kind of object it belongs to. Conditions of type
// metav1.Condition have apimachinery's package meta for that.
package conditions

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition is one of the types that older kinds of the API have for their conditions.
type Condition interface {
	corev1.PodCondition | corev1.NamespaceCondition | batchv1.JobCondition
}

// Find returns the condition of a type, in its list, or nil.
func Find[T Condition, S ~string](list []T, conditionType S) *T {
	for i := range list {
		if partsOf(&list[i]).name == string(conditionType) {
			return &list[i]
		}
	}
	return nil
}

// Set puts a condition in the place of the one of its type, or at the end of the list, and reports whether its status,
// reason or message is new. If none is, the list is left alone. The time of the last transition, which the caller sets
// to the present, stays what it was while the status does.
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

// SetCopy is Set for a list that others may be reading: a list that changes is a new one.
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
