package core

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/jobd/jobd/internal/quantity"
)

func validateResources(r *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	limits, requests := path.Child("limits"), path.Child("requests")
	for _, name := range sortedKeys(r.Limits) {
		errs = append(errs, validateAmount(name, r.Limits[name], limits.Key(string(name)))...)
	}
	for _, name := range sortedKeys(r.Requests) {
		request := r.Requests[name]
		errs = append(errs, validateAmount(name, request, requests.Key(string(name)))...)
		limit, limited := r.Limits[name]
		overcommit := isNative(name) && !isHugePages(name)
		switch {
		case !limited && !overcommit:
			errs = append(errs, field.Required(limits, "Limit must be set for non overcommitable resources"))
		case limited && !overcommit && request.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(requests, request.String(),
				fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(requests, request.String(),
				fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	if anyName(r, isHugePages) && !anyName(r, func(n corev1.ResourceName) bool { return n == corev1.ResourceCPU || n == corev1.ResourceMemory }) {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	return errs
}

// ValidateOverhead checks what a Pod uses in addition to its containers (PodSpec.Overhead), or what a RuntimeClass adds
// to its pods.
func ValidateOverhead(overhead corev1.ResourceList, path *field.Path) field.ErrorList {
	return validateResources(&corev1.ResourceRequirements{Limits: overhead}, path)
}

// validatePodResources checks what the containers of a Pod may use together (KEP-2837): it has to cover the requests of
// each of them.
func validatePodResources(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	r := spec.Resources
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	limits, requests := path.Child("limits"), path.Child("requests")
	for _, list := range []struct {
		amounts corev1.ResourceList
		path    *field.Path
	}{{r.Limits, limits}, {r.Requests, requests}} {
		for _, name := range sortedKeys(list.amounts) {
			if !resourcehelper.IsSupportedPodLevelResource(name) {
				errs = append(errs, field.NotSupported(list.path.Key(string(name)), name, podResources))
			}
		}
	}
	if len(errs) > 0 {
		return errs
	}
	errs = validateResources(r, path)
	pod, options := &corev1.Pod{Spec: *spec}, resourcehelper.PodResourcesOptions{}
	asked := resourcehelper.AggregateContainerRequests(pod, options)
	for _, name := range sortedKeys(asked) {
		if whole, ok := r.Requests[name]; ok && whole.Cmp(asked[name]) < 0 {
			sum := asked[name]
			errs = append(errs, field.Invalid(requests.Key(string(name)), whole.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", sum.String())))
		}
	}
	limited := resourcehelper.AggregateContainerLimits(pod, options)
	for _, name := range sortedKeys(limited) {
		if whole, ok := r.Limits[name]; ok && isHugePages(name) && whole.Cmp(limited[name]) < 0 {
			sum := limited[name]
			errs = append(errs, field.Invalid(limits.Key(string(name)), whole.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container limits of %s", sum.String())))
		}
	}
	for i := range spec.Containers {
		own := spec.Containers[i].Resources.Limits
		for _, name := range sortedKeys(own) {
			if whole, ok := r.Limits[name]; ok && whole.Cmp(own[name]) < 0 {
				limit := own[name]
				// Clusters print this odd path.
				errs = append(errs,
					field.Invalid(path.Child("containers").Index(i).Key(string(name)).Child("limits"), limit.String(),
						fmt.Sprintf("must be less than or equal to pod limits of %s", whole.String())))
			}
		}
	}
	return errs
}

// podResources lists the resources that a whole Pod may request.
var podResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceHugePagesPrefix, corev1.ResourceMemory}

func anyName(r *corev1.ResourceRequirements, is func(corev1.ResourceName) bool) bool {
	return slices.ContainsFunc(sortedKeys(r.Limits), is) || slices.ContainsFunc(sortedKeys(r.Requests), is)
}

func validateAmount(name corev1.ResourceName, amount resource.Quantity, path *field.Path) field.ErrorList {
	errs := validateResourceName(name, path)
	if amount.Sign() < 0 {
		errs = append(errs, field.Invalid(path, amount.String(), "must be greater than or equal to 0"))
	}
	if name == corev1.ResourceCPU && amount.CmpInt64(math.MaxInt64/1000) > 0 {
		errs = append(errs, field.Invalid(path, amount.String(), "must be no more than 9223372036854775 CPUs"))
	}
	if isHugePages(name) && !wholePages(name, amount) {
		errs = append(errs, field.Invalid(path, amount.String(),
			fmt.Sprintf("%s is not positive integer multiple of %s", amount.String(), name)))
	}
	if IsExtended(name) && amount.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, amount, "must be an integer"))
	}
	return errs
}

func validateResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := invalid(path, string(name), utilvalidation.IsQualifiedName(string(name)))
	switch {
	case len(errs) > 0:
	case !strings.Contains(string(name), "/"):
		if !slices.Contains(containerResources, name) && !isHugePages(name) {
			if !isStandardResource(name) {
				errs = append(errs,
					field.Invalid(path, string(name), "must be a standard resource type or fully qualified"))
			}
			errs = append(errs, field.Invalid(path, string(name), "must be a standard resource for containers"))
		}
	case !isNative(name) && !IsExtended(name):
		errs = append(errs, field.Invalid(path, string(name), "doesn't follow extended resource name standard"))
	}
	return errs
}

var containerResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory,
	corev1.ResourceEphemeralStorage}

// otherResources lists the standard resources of quotas and volumes, which no container can request.
var otherResources = []corev1.ResourceName{
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
	corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
	corev1.ResourceStorage, corev1.ResourceRequestsStorage,
	corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

// isStandardResource reports whether Kubernetes itself has a resource of that name, without a domain.
func isStandardResource(name corev1.ResourceName) bool {
	return slices.Contains(containerResources, name) || slices.Contains(otherResources, name) || isHugePages(name) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// wholePages reports whether an amount of huge pages is a multiple of their size, which their name says.
func wholePages(name corev1.ResourceName, amount resource.Quantity) bool {
	size, err := quantity.Parse(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 {
		return false
	}
	return amount.Value()%size.Value() == 0
}

// isNative reports whether Kubernetes itself defines a resource.
func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// IsExtended reports whether a resource is an extended one, that is, none of Kubernetes' own; most are devices. Their
// amounts are whole numbers.
func IsExtended(name corev1.ResourceName) bool {
	return !isNative(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(utilvalidation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}
