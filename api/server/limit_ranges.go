package server

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/limits"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// limitRanges gives new pods the requests and limits of their namespace's LimitRanges, and refuses pods and claims that
// those do not allow. The pods of a Job, which no client creates, the control loop checks in the same way.
type limitRanges struct{ store *store.Store }

var (
	_ admission.MutationInterface   = limitRanges{}
	_ admission.ValidationInterface = limitRanges{}
)

func (limitRanges) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

func (l limitRanges) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok || a.GetOperation() != admission.Create || a.GetSubresource() != "" {
		return nil
	}
	ranges, err := l.of(a.GetNamespace())
	if err == nil {
		limits.Fill(ranges, pod)
	}
	return err
}

func (l limitRanges) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	var check func([]*corev1.LimitRange) error
	switch obj := a.GetObject().(type) {
	case *corev1.Pod:
		// The resources of a pod change by a resize only.
		if resizes := a.GetSubresource() == "resize"; !resizes && (a.GetSubresource() != "" || a.GetOperation() != admission.Create) {
			return nil
		}
		check = func(ranges []*corev1.LimitRange) error { return limits.CheckPod(ranges, obj) }
	case *corev1.PersistentVolumeClaim:
		if a.GetSubresource() != "" || obj.DeletionTimestamp != nil {
			return nil
		}
		check = func(ranges []*corev1.LimitRange) error { return limits.CheckClaim(ranges, obj) }
	default:
		return nil
	}
	ranges, err := l.of(a.GetNamespace())
	if err != nil {
		return err
	}
	if refusal := check(ranges); refusal != nil {
		return admission.NewForbidden(a, refusal)
	}
	return nil
}

func (l limitRanges) of(namespace string) (ranges []*corev1.LimitRange, err error) {
	if err := l.store.View(func(s *store.Snapshot) (err error) {
		ranges, err = storage.LimitRanges(s, namespace)
		return err
	}); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return ranges, nil
}
