// Package quota decides what the ResourceQuotas of a namespace say of its objects: how much of each resource an object
// uses, and whether another object is refused. It is pure: it takes quotas and objects, and returns changed quotas. The
// rules and words are those of a cluster's admission plugin ResourceQuota, most of which is a library; what objects of each
// kind use is defined here.
package quota

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	library "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// Check returns the quotas with what a request would use added to status.used, or the Forbidden error of the request if that
// is more than one of them allows. The quotas that it is given stay as they are.
func Check(quotas []corev1.ResourceQuota, a admission.Attributes) ([]corev1.ResourceQuota, error) {
	if len(quotas) == 0 {
		return nil, nil
	}
	return resourcequota.CheckRequest(quotas, a, evaluatorOf(a.GetResource().GroupResource()), nil)
}

// Times returns which of the quotas does not allow so many times what one object uses, by what was used before it and with it; nil if all
// do.
func Times(before, with []corev1.ResourceQuota, times int) error {
	for i := range before {
		was, is := before[i].Status.Used, with[i].Status.Used
		for _, name := range library.ResourceNames(before[i].Status.Hard) {
			one, hard := is[name].DeepCopy(), before[i].Status.Hard[name]
			one.Sub(was[name])
			all := one.DeepCopy()
			if one.Sign() <= 0 || all.Mul(int64(times)) && !more(was[name], all, hard) {
				continue
			}
			used := was[name]
			return fmt.Errorf("exceeded quota: %s, requested: %s=%s, used: %s=%s, limited: %s=%s",
				before[i].Name, name, all.String(), name, used.String(), name, hard.String())
		}
	}
	return nil
}

// Repeated returns quotas after so many times what one object uses, by what was used before it and with it.
func Repeated(before, with []corev1.ResourceQuota, times int) []corev1.ResourceQuota {
	out := make([]corev1.ResourceQuota, len(with))
	for i := range with {
		with[i].DeepCopyInto(&out[i])
		for name, is := range out[i].Status.Used {
			one := is.DeepCopy()
			one.Sub(before[i].Status.Used[name])
			if one.Sign() > 0 && one.Mul(int64(times-1)) {
				is.Add(one)
				out[i].Status.Used[name] = is
			}
		}
	}
	return out
}

// more reports whether what is used, with something else, is more than a limit.
func more(used, other, limit resource.Quantity) bool {
	used = used.DeepCopy()
	used.Add(other)
	return used.Cmp(limit) > 0
}

// Counts reports whether a quota limits anything that objects of a resource use.
func Counts(q *corev1.ResourceQuota, of schema.GroupResource) bool {
	return len(evaluatorOf(of).MatchingResources(library.ResourceNames(q.Spec.Hard))) > 0
}

// Object is an object of which quotas ask what it uses. That is worked out once, however many of them ask.
type Object struct {
	obj       runtime.Object
	evaluator library.Evaluator
	uses      corev1.ResourceList
}

// Of returns an object of a resource, which may be nil: that uses nothing.
func Of(resource schema.GroupResource, obj runtime.Object) *Object {
	return &Object{obj: obj, evaluator: evaluatorOf(resource)}
}

// Use returns what the object uses of that which a quota limits.
func (o *Object) Use(q *corev1.ResourceQuota) (used corev1.ResourceList, err error) {
	if o.obj == nil {
		return nil, nil
	}
	// What an evaluator matches is said of the status, which may not be there yet.
	limits := *q
	limits.Status.Hard = q.Spec.Hard
	if matches, err := o.evaluator.Matches(&limits, o.obj); err != nil || !matches {
		return nil, err
	}
	if o.uses == nil {
		if o.uses, err = o.evaluator.Usage(o.obj); err != nil {
			return nil, err
		}
	}
	return library.Mask(o.uses, library.ResourceNames(q.Spec.Hard)), nil
}

// Change moves status.used by the difference between what an object used and what it uses, and reports whether that
// changes anything, and whether something was freed.
func Change(q *corev1.ResourceQuota, before, after corev1.ResourceList) (changed, freed bool) {
	delta := library.RemoveZeros(library.Subtract(after, before))
	if len(delta) == 0 {
		return false, false
	}
	q.Status.Used = library.Add(q.Status.Used, delta)
	return true, len(library.IsNegative(delta)) > 0
}

// Restart sets the status to what the spec allows, with nothing used.
func Restart(q *corev1.ResourceQuota) {
	q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: corev1.ResourceList{}}
	for name := range q.Spec.Hard {
		q.Status.Used[name] = resource.Quantity{Format: resource.DecimalSI}
	}
}

// rules are an evaluator: what objects of one kind use.
type rules struct {
	library.Evaluator // counts objects
	matching          func(corev1.ResourceName) bool
	usage             func(runtime.Object) corev1.ResourceList
	handles           func(admission.Attributes) bool
	// scope and constraints are nil for kinds that have none.
	scope       func(corev1.ScopedResourceSelectorRequirement, runtime.Object) bool
	constraints func(required []corev1.ResourceName, obj runtime.Object) error
}

// special are the kinds of which more than the number is limited.
var special = map[schema.GroupResource]func(library.Evaluator) *rules{
	{Resource: "pods"}:                   podRules,
	{Resource: "persistentvolumeclaims"}: claimRules,
	{Resource: "services"}:               serviceRules,
}

// aliases are names for the number of objects from before count/RESOURCE.
var aliases = map[schema.GroupResource]corev1.ResourceName{
	{Resource: "configmaps"}:     corev1.ResourceConfigMaps,
	{Resource: "secrets"}:        corev1.ResourceSecrets,
	{Resource: "resourcequotas"}: corev1.ResourceQuotas,
}

func evaluatorOf(of schema.GroupResource) library.Evaluator {
	count := generic.NewObjectCountEvaluator(of, nil, aliases[of])
	if more, ok := special[of]; ok {
		return more(count)
	}
	return count
}

func (r *rules) Handles(a admission.Attributes) bool { return r.handles(a) }

func (r *rules) MatchingResources(names []corev1.ResourceName) (matching []corev1.ResourceName) {
	matching = r.Evaluator.MatchingResources(names)
	for _, name := range names {
		if r.matching(name) {
			matching = append(matching, name)
		}
	}
	return matching
}

func (r *rules) Usage(obj runtime.Object) (corev1.ResourceList, error) {
	count, err := r.Evaluator.Usage(obj)
	return library.Add(count, r.usage(obj)), err
}

func (r *rules) Constraints(required []corev1.ResourceName, obj runtime.Object) error {
	if r.constraints == nil {
		return nil
	}
	return r.constraints(required, obj)
}

func (r *rules) Matches(q *corev1.ResourceQuota, obj runtime.Object) (bool, error) {
	return generic.Matches(q, obj, r.MatchingResources, func(s corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
		return r.scope != nil && r.scope(s, obj), nil
	})
}

func (r *rules) MatchingScopes(
	obj runtime.Object, scopes []corev1.ScopedResourceSelectorRequirement,
) (matching []corev1.ScopedResourceSelectorRequirement, err error) {
	for _, s := range scopes {
		if r.scope != nil && r.scope(s, obj) {
			matching = append(matching, s)
		}
	}
	return matching, nil
}

func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

// withoutPrefix returns a name without a prefix, and whether it has it.
func withoutPrefix(name corev1.ResourceName, prefix string) (corev1.ResourceName, bool) {
	rest, ok := strings.CutPrefix(string(name), prefix)
	return corev1.ResourceName(rest), ok
}
