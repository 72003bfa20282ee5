package server

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/disruption"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
)

// podEviction serves POST .../pods/NAME/eviction: a deletion that marks the pod as disrupted, so that a pod failure
// policy can tell it from a failure. PodDisruptionBudgets may refuse it.
type podEviction struct {
	pods    *registry.Store
	budgets disruptionBudgets
}

var (
	_ rest.NamedCreater             = &podEviction{}
	_ rest.GroupVersionKindProvider = &podEviction{}
	_ rest.GroupVersionAcceptor     = &podEviction{}
)

func (e *podEviction) New() runtime.Object { return &policyv1.Eviction{} }
func (e *podEviction) Destroy()            {}

func (e *podEviction) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return policyv1.SchemeGroupVersion.WithKind("Eviction")
}

func (e *podEviction) AcceptsGroupVersion(gv schema.GroupVersion) bool {
	return gv == policyv1.SchemeGroupVersion || gv == scheme.EvictionBeta
}

func (e *podEviction) Create(
	ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	eviction := obj.(*policyv1.Eviction)
	if eviction.Name != name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("name in URL %s does not match name in Eviction object: %s",
			name, eviction.Name))
	}
	if validate != nil {
		if err := validate(ctx, eviction.DeepCopy()); err != nil {
			return nil, err
		}
	}
	deletion := eviction.DeleteOptions
	if deletion == nil {
		deletion = &metav1.DeleteOptions{}
	}
	if dryrun.IsDryRun(options.DryRun) {
		deletion.DryRun = options.DryRun
	}
	for try := 1; ; try++ {
		pod, err := e.pods.Get(ctx, name, &metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		allowed, err := e.budgets.allow(ctx, pod.(*corev1.Pod), deletion)
		if err != nil {
			return nil, err
		}
		err = e.evict(ctx, name, allowed.deletion)
		switch {
		case err == nil:
			return &metav1.Status{Status: metav1.StatusSuccess, Code: 201}, nil
		case !allowed.outdated(err):
			return nil, err
		case try == evictionTries:
			return nil, disruption.Processing(allowed.of)
		}
	}
}

// evictedByAPI is the reason of the condition DisruptionTarget of a pod that is evicted.
const evictedByAPI = "EvictionByEvictionAPI"

// evictionTries is how often it is decided about a pod that changes meanwhile, before the client is to try again.
const evictionTries = 5

// evict marks a pod and deletes it.
func (e *podEviction) evict(ctx context.Context, name string, deletion *metav1.DeleteOptions) error {
	marked, err := e.mark(ctx, name, deletion)
	if err != nil {
		return err
	}
	if lead := core.SignalLead(marked, time.Now()); lead > 0 && deletion.GracePeriodSeconds == nil {
		// The grace begins once its signal has had its time.
		deletion = deletion.DeepCopy()
		deletion.GracePeriodSeconds = ptr.To(ptr.Deref(marked.Spec.TerminationGracePeriodSeconds, 0) + int64(lead/time.Second))
	}
	_, _, err = e.pods.Delete(ctx, name, rest.ValidateAllObjectFunc, deletion)
	if err != nil {
		// The pod stays. Failures of its own, later, are not to be taken for disruptions.
		_ = e.unmark(context.WithoutCancel(ctx), name, deletion)
	}
	return err
}

// mark adds the condition to a pod that has not ended yet, and returns the pod.
func (e *podEviction) mark(ctx context.Context, name string, deletion *metav1.DeleteOptions) (*corev1.Pod, error) {
	key, err := e.pods.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	var preconditions *apistorage.Preconditions
	if p := deletion.Preconditions; p != nil {
		preconditions = &apistorage.Preconditions{UID: p.UID, ResourceVersion: p.ResourceVersion}
	}
	marked := &corev1.Pod{}
	err = e.pods.Storage.GuaranteedUpdate(ctx, key, marked, false, preconditions, apistorage.SimpleUpdate(func(current runtime.Object) (runtime.Object, error) {
		pod := current.(*corev1.Pod)
		if podspec.Ended(pod) || pod.DeletionTimestamp != nil {
			return pod, nil
		}
		conditions.Set(&pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
			Reason: evictedByAPI, Message: "Eviction API: evicting",
			ObservedGeneration: pod.Generation,
		})
		return pod, nil
	}), dryrun.IsDryRun(deletion.DryRun), nil)
	if err != nil {
		return nil, storageerrors.InterpretUpdateError(err, schema.GroupResource{Resource: "pods"}, name)
	}
	if p := deletion.Preconditions; p != nil && p.ResourceVersion != nil {
		p.ResourceVersion = &marked.ResourceVersion // the mark was a write of its own
	}
	return marked, nil
}

// unmark takes the condition of an eviction back, unless the pod ends all the same.
func (e *podEviction) unmark(ctx context.Context, name string, deletion *metav1.DeleteOptions) error {
	key, err := e.pods.KeyFunc(ctx, name)
	if err != nil {
		return err
	}
	return e.pods.Storage.GuaranteedUpdate(ctx, key, &corev1.Pod{}, false, nil, apistorage.SimpleUpdate(func(current runtime.Object) (runtime.Object, error) {
		pod := current.(*corev1.Pod)
		c := conditions.Find(pod.Status.Conditions, corev1.DisruptionTarget)
		if c == nil || c.Reason != evictedByAPI || podspec.Ended(pod) || pod.DeletionTimestamp != nil {
			return pod, nil
		}
		conditions.Set(&pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now(), ObservedGeneration: pod.Generation,
		})
		return pod, nil
	}), dryrun.IsDryRun(deletion.DryRun), nil)
}
