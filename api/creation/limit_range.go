package creation

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/limits"
)

// fillFromLimitRanges gives a pod the requests and limits of its namespace's LimitRanges.
func fillFromLimitRanges(r *Request) (refusal, err error) {
	pod, ok := r.GetObject().(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	ranges, err := r.From.LimitRanges(r.GetNamespace())
	if err == nil {
		limits.Fill(ranges, pod)
	}
	return nil, err
}

// CheckLimitRanges refuses pods and claims that the LimitRanges of their namespace do not allow.
func CheckLimitRanges(_ context.Context, r *Request) (refusal, err error) {
	var check func([]*corev1.LimitRange) error
	if sub := r.GetSubresource(); sub != "" && sub != "resize" { // the resources of a pod change by a resize only
		return nil, nil
	}
	switch obj := r.GetObject().(type) {
	case *corev1.Pod:
		check = func(ranges []*corev1.LimitRange) error { return limits.CheckPod(ranges, obj) }
	case *corev1.PersistentVolumeClaim:
		if obj.DeletionTimestamp != nil {
			return nil, nil
		}
		check = func(ranges []*corev1.LimitRange) error { return limits.CheckClaim(ranges, obj) }
	default:
		return nil, nil
	}
	ranges, err := r.From.LimitRanges(r.GetNamespace())
	if err != nil {
		return nil, err
	}
	if reason := check(ranges); reason != nil {
		return r.forbidden(reason), nil
	}
	return nil, nil
}
