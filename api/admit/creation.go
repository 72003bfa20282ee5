package admit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/creation"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// Creation applies rules for new objects (package creation) to what clients create.
type Creation struct {
	Store *store.Store
	Rules []creation.Rule
}

var (
	_ admission.MutationInterface   = Creation{}
	_ admission.ValidationInterface = Creation{}
)

// Handles implements admission.Interface.
func (Creation) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit implements admission.MutationInterface. A subresource that is created is no new object.
func (c Creation) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	return answer(creation.Fill(c.Rules, requestOf(c.Store, a)))
}

// Validate implements admission.ValidationInterface.
func (c Creation) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return answer(creation.Check(ctx, c.Rules, requestOf(c.Store, a)))
}

func requestOf(s *store.Store, a admission.Attributes) *creation.Request {
	return &creation.Request{Attributes: a, From: source{s}}
}

// answer returns what a client is told.
func answer(refusal, err error) error {
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return refusal
}

// source is the store as it is now.
type source struct{ store *store.Store }

// Namespace implements creation.Source.
func (s source) Namespace(name string) (*corev1.Namespace, bool, error) {
	return storage.Namespace(s.store, name)
}

// LimitRanges implements creation.Source.
func (s source) LimitRanges(namespace string) (ranges []*corev1.LimitRange, err error) {
	failed := s.store.View(func(s *store.Snapshot) error {
		ranges, err = storage.LimitRanges(s, namespace)
		return err
	})
	return ranges, failed
}

// References implements creation.Source.
func (s source) References(fn func(*storage.PodReferences)) error {
	return s.store.View(func(s *store.Snapshot) error {
		references, err := storage.NewPodReferences(s)
		if err == nil {
			fn(references)
		}
		return err
	})
}

// Quotas implements creation.Source. What it is set to is forgotten: the transaction decides once more (QuotaInTransaction).
func (s source) Quotas(namespace string) (*[]corev1.ResourceQuota, error) {
	var quotas []corev1.ResourceQuota
	err := s.store.View(func(s *store.Snapshot) (err error) {
		quotas, err = storage.ResourceQuotas(s, namespace)
		return err
	})
	return &quotas, err
}
