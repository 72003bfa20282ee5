package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/kind"
)

// countedResources are those of which a quota limits the number.
var countedResources = []corev1.ResourceName{
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
	corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
	corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

// isQuotaResource reports whether Kubernetes itself has a resource of that name which a quota can limit.
func isQuotaResource(name corev1.ResourceName) bool {
	return name != corev1.ResourceStorage && isStandardResource(name)
}

// validateResourceQuota checks a ResourceQuota (ResourceQuotaSpec).
func validateResourceQuota(q *corev1.ResourceQuota) field.ErrorList {
	errs := validation.ValidateObjectMeta(&q.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateResourceQuotaSpec(&q.Spec, field.NewPath("spec"))...)
}

// ValidateQuota checks what a ResourceQuota is to limit.
func ValidateQuota(hard corev1.ResourceList, path *field.Path) field.ErrorList {
	return validateResourceQuotaSpec(&corev1.ResourceQuotaSpec{Hard: hard}, path)
}

func validateResourceQuotaUpdate(q, old *corev1.ResourceQuota) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&q.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateResourceQuotaSpec(&q.Spec, field.NewPath("spec"))...)
	if !sets.New(q.Spec.Scopes...).Equal(sets.New(old.Spec.Scopes...)) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "scopes"), q.Spec.Scopes, validation.FieldImmutableErrorMsg))
	}
	return errs
}

func validateResourceQuotaSpec(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedKeys(spec.Hard) {
		amount, at := spec.Hard[name], path.Child("hard").Key(string(name))
		errs = append(errs, invalid(at, string(name), utilvalidation.IsQualifiedName(string(name)))...)
		if !strings.Contains(string(name), "/") && !isQuotaResource(name) {
			errs = append(errs, field.Invalid(at, string(name), "must be a standard resource for quota"))
		}
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(at, amount.String(), "must be greater than or equal to 0"))
		}
		if (slices.Contains(countedResources, name) || IsExtended(name)) && amount.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, amount, "must be an integer"))
		}
	}
	errs = append(errs, validateQuotaScopes(spec, path.Child("scopes"))...)
	if spec.ScopeSelector != nil {
		errs = append(errs, validateQuotaScopeSelector(spec, path.Child("scopeSelector", "matchExpressions"))...)
	}
	return errs
}

func validateQuotaScopes(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, scope := range spec.Scopes {
		if !slices.Contains(quotaScopes, scope) {
			errs = append(errs, field.Invalid(path, spec.Scopes, "unsupported scope"))
		}
		errs = append(errs, validateScopedResources(spec, scope, path, spec.Scopes)...)
	}
	if conflicting(spec.Scopes) {
		errs = append(errs, field.Invalid(path, spec.Scopes, "conflicting scopes"))
	}
	return errs
}

func validateQuotaScopeSelector(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var scopes []corev1.ResourceQuotaScope
	for _, r := range spec.ScopeSelector.MatchExpressions {
		scopes = append(scopes, r.ScopeName)
		if !slices.Contains(quotaScopes, r.ScopeName) {
			errs = append(errs, field.Invalid(path.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		errs = append(errs, validateScopedResources(spec, r.ScopeName, path, spec.ScopeSelector)...)
		if slices.Contains(yesOrNoScopes, r.ScopeName) && r.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "must be 'Exists' when scope is any of "+
				"ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "+
				"ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(path.Child("values"),
					"must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				errs = append(errs, field.Invalid(path.Child("values"), r.Values,
					"must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
		}
	}
	if conflicting(scopes) {
		errs = append(errs, field.Invalid(path, spec.Scopes, "conflicting scopes"))
	}
	return errs
}

// yesOrNoScopes are those that an object is in or not.
var yesOrNoScopes = []corev1.ResourceQuotaScope{
	corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
	corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
}

var quotaScopes = append(slices.Clone(yesOrNoScopes), corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeVolumeAttributesClass)

// scopedResources are the resources that a quota can limit in a scope. Objects count only if they are in it.
func scopedResources(scope corev1.ResourceQuotaScope) []corev1.ResourceName {
	switch scope {
	case corev1.ResourceQuotaScopeBestEffort:
		return []corev1.ResourceName{corev1.ResourcePods}
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage}
	}
	return []corev1.ResourceName{
		corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
	}
}

func validateScopedResources(
	spec *corev1.ResourceQuotaSpec, scope corev1.ResourceQuotaScope, path *field.Path, value any,
) (errs field.ErrorList) {
	if !slices.Contains(quotaScopes, scope) {
		return nil
	}
	for _, name := range sortedKeys(spec.Hard) {
		if isQuotaResource(name) && !slices.Contains(scopedResources(scope), name) {
			errs = append(errs, field.Invalid(path, value, "unsupported scope applied to resource"))
		}
	}
	return errs
}

// conflicting reports whether no object can be in all of the scopes.
func conflicting(scopes []corev1.ResourceQuotaScope) bool {
	all := sets.New(scopes...)
	return all.HasAll(corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort) ||
		all.HasAll(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating)
}

// resourceQuotaWarnings returns a warning for each resource whose requests may exceed its limits.
func resourceQuotaWarnings(q *corev1.ResourceQuota) (warnings []string) {
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage,
	} {
		asked := corev1.DefaultResourceRequestsPrefix + name
		request, ok := q.Spec.Hard[asked]
		if !ok && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			asked = name
			request, ok = q.Spec.Hard[asked]
		}
		limit, limited := q.Spec.Hard["limits."+name]
		if ok && limited && request.Cmp(limit) > 0 {
			warnings = append(warnings, fmt.Sprintf("ResourceQuota %s (%s) should be less than limits.%s (%s)",
				asked, request.String(), name, limit.String()))
		}
	}
	return warnings
}

// resourceQuotaTable is what kubectl prints of ResourceQuotas.
func resourceQuotaTable() kind.Columns[*corev1.ResourceQuota] {
	return kind.Columns[*corev1.ResourceQuota]{
		kind.NameColumn[*corev1.ResourceQuota](),
		{Name: "Request", Description: "What is used and allowed of requests and objects.",
			Cell: func(q *corev1.ResourceQuota, _ time.Time) any { return quotaCell(q, false) }},
		{Name: "Limit", Description: "What is used and allowed of limits.",
			Cell: func(q *corev1.ResourceQuota, _ time.Time) any { return quotaCell(q, true) }},
		kind.AgeColumn[*corev1.ResourceQuota](),
	}
}

// quotaCell returns what is used and allowed of limits, or of everything else: "pods: 1/2, services: 0/5".
func quotaCell(q *corev1.ResourceQuota, limits bool) string {
	var parts []string
	for _, name := range sortedKeys(q.Status.Hard) {
		if strings.HasPrefix(string(name), "limits.") != limits {
			continue
		}
		used, hard := q.Status.Used[name], q.Status.Hard[name]
		parts = append(parts, fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String()))
	}
	return strings.Join(parts, ", ")
}
