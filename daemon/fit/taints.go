package fit

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// Expelled returns when a pod that runs is to be evicted because of the node's taints (TaintEffectNoExecute): as soon
// as it does not tolerate one of them, or not any longer (Toleration.TolerationSeconds). False: never.
func Expelled(tolerations []corev1.Toleration, taints []corev1.Taint, now time.Time) (time.Time, bool) {
	var first time.Time
	leave := func(at time.Time) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	for i := range taints {
		taint := &taints[i]
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		since := now
		if taint.TimeAdded != nil {
			since = taint.TimeAdded.Time
		}
		t := tolerating(tolerations, taint)
		switch {
		case t == nil:
			leave(now)
		case t.TolerationSeconds != nil:
			leave(since.Add(max(0, podspec.Seconds(*t.TolerationSeconds))))
		}
	}
	return first, !first.IsZero()
}

// tolerating returns the first toleration that matches a taint, nil if there is none.
func tolerating(tolerations []corev1.Toleration, taint *corev1.Taint) *corev1.Toleration {
	for i := range tolerations {
		if Tolerates(tolerations[i:i+1], taint) {
			return &tolerations[i]
		}
	}
	return nil
}
