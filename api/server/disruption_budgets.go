package server

import (
	"context"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	apistorage "k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/jobd/jobd/api/disruption"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// disruptionBudgets lets PodDisruptionBudgets decide about evictions.
type disruptionBudgets struct {
	objects *registry.Store
	store   *store.Store
}

// eviction is what the budgets have decided about the eviction of a pod.
type eviction struct {
	deletion *metav1.DeleteOptions
	// of is the budget that has allowed it for the pod as it was then; empty if any pod of the name may be evicted.
	of string
}

// allow decides about the eviction of a pod, and uses up what a budget allows. The error is what a cluster answers.
func (b disruptionBudgets) allow(ctx context.Context, pod *corev1.Pod, deletion *metav1.DeleteOptions) (eviction, error) {
	budgets, err := b.of(pod)
	if err != nil || len(budgets) == 0 {
		return eviction{deletion: deletion}, err
	}
	budget := budgets[0]
	waits := pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil
	switch {
	case waits || disruption.Guards(pod) && len(budgets) == 1 && disruption.Free(budget, pod):
		return asItIs(pod, deletion, budget.Name), nil
	case !disruption.Guards(pod):
		return eviction{deletion: deletion}, nil
	case len(budgets) > 1:
		return eviction{}, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}}
	}
	key, err := b.objects.KeyFunc(ctx, budget.Name)
	if err != nil {
		return eviction{}, err
	}
	err = b.objects.Storage.GuaranteedUpdate(ctx, key, &policyv1.PodDisruptionBudget{}, false, nil, apistorage.SimpleUpdate(
		func(current runtime.Object) (runtime.Object, error) {
			return current, disruption.Take(current.(*policyv1.PodDisruptionBudget), pod.Name, time.Now())
		}), dryrun.IsDryRun(deletion.DryRun), nil)
	return eviction{deletion: deletion}, storageerrors.InterpretUpdateError(err, policyv1.Resource("poddisruptionbudgets"), budget.Name)
}

// asItIs binds a deletion to the pod as it is, unless the client has bound it already: it may become healthy.
func asItIs(pod *corev1.Pod, deletion *metav1.DeleteOptions, budget string) eviction {
	if p := deletion.Preconditions; p != nil && p.ResourceVersion != nil {
		return eviction{deletion: deletion}
	}
	deletion = deletion.DeepCopy()
	if deletion.Preconditions == nil {
		deletion.Preconditions = &metav1.Preconditions{}
	}
	deletion.Preconditions.ResourceVersion = &pod.ResourceVersion
	return eviction{deletion, budget}
}

// outdated reports whether an eviction has failed because the pod has changed since it was decided about.
func (e eviction) outdated(err error) bool { return e.of != "" && apierrors.IsConflict(err) }

// of returns the budgets that choose a pod.
func (b disruptionBudgets) of(pod *corev1.Pod) (budgets []*policyv1.PodDisruptionBudget, err error) {
	viewed := b.store.View(func(s *store.Snapshot) error {
		s.Range(store.Key(policyv1.Resource("poddisruptionbudgets").String(), pod.Namespace, ""), "", func(o store.Object) bool {
			budget := &policyv1.PodDisruptionBudget{}
			if err = scheme.Decode(o.Value, budget); err == nil && disruption.Selector(budget).Matches(labels.Set(pod.Labels)) {
				budgets = append(budgets, budget)
			}
			return err == nil
		})
		return err
	})
	return budgets, viewed
}
