package core

// The description of the kind for the server. The rules are in limit_range.go.

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/kind"
)

// LimitRangeKind describes v1 LimitRanges.
func LimitRangeKind() *kind.Kind {
	return kind.Of[corev1.LimitRange, corev1.LimitRangeList](kind.Description[*corev1.LimitRange]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "LimitRange",
		ShortNames:   []string{"limits"},
		Namespaced:   true,
		Default:      setLimitRangeDefaults,
		Table:        limitRangeTable(),
		Rules: kind.Rules[*corev1.LimitRange]{
			Check:       validateLimitRange,
			CheckUpdate: validateLimitRangeUpdate,
		},
	})
}
