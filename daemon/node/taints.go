package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Expelled tells when a pod that runs has to leave because of the taints of the node (TaintEffectNoExecute): as soon as
// it tolerates one of them not at all, or not any longer (Toleration.TolerationSeconds). False: never.
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
			leave(since.Add(max(0, time.Duration(*t.TolerationSeconds)*time.Second)))
		}
	}
	return first, !first.IsZero()
}

// tolerating gives the first toleration of a taint.
func tolerating(tolerations []corev1.Toleration, taint *corev1.Taint) *corev1.Toleration {
	for i := range tolerations {
		if tolerates(tolerations[i:i+1], taint) {
			return &tolerations[i]
		}
	}
	return nil
}
