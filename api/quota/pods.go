package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	library "k8s.io/apiserver/pkg/quota/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
)

const (
	prefixRequests  = "requests."
	prefixLimits    = "limits."
	prefixHugePages = corev1.ResourceHugePagesPrefix
)

// compute are the resources that a quota limits by three names: cpu and requests.cpu for requests, limits.cpu for limits.
var compute = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

func podRules(count library.Evaluator) *rules {
	return &rules{
		Evaluator: count,
		matching:  ofPods,
		usage:     func(obj runtime.Object) corev1.ResourceList { return usedByPod(obj.(*corev1.Pod)) },
		scope: func(s corev1.ScopedResourceSelectorRequirement, obj runtime.Object) bool {
			return inScope(s, obj.(*corev1.Pod))
		},
		constraints: func(required []corev1.ResourceName, obj runtime.Object) error {
			return specifies(required, obj.(*corev1.Pod))
		},
		handles: func(a admission.Attributes) bool {
			switch a.GetSubresource() {
			case "":
				if a.GetOperation() == admission.Update {
					return terminating(a.GetObject().(*corev1.Pod)) != terminating(a.GetOldObject().(*corev1.Pod))
				}
				return a.GetOperation() == admission.Create
			case "resize":
				return a.GetOperation() == admission.Update
			}
			return false
		},
	}
}

// ofPods reports whether a quota limits pods by a name.
func ofPods(name corev1.ResourceName) bool {
	requested, isRequest := withoutPrefix(name, prefixRequests)
	limited, isLimit := withoutPrefix(name, prefixLimits)
	switch {
	case name == corev1.ResourcePods, slices.Contains(compute, name), strings.HasPrefix(string(name), prefixHugePages):
		return true
	case isRequest:
		return slices.Contains(compute, requested) || strings.HasPrefix(string(requested), prefixHugePages) || core.IsExtended(requested)
	case isLimit:
		return slices.Contains(compute, limited)
	}
	return false
}

// ofFiles are the names by which a quota limits the files of pods.
var ofFiles = []corev1.ResourceName{
	corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage,
}

// LimitsFiles reports whether a quota limits the files of pods.
func LimitsFiles(q *corev1.ResourceQuota) bool {
	return slices.ContainsFunc(ofFiles, func(name corev1.ResourceName) bool { _, ok := q.Spec.Hard[name]; return ok })
}

// usedByPod returns what a pod uses until it has ended, and of ephemeral storage for as long as it keeps its files. Unlike in a
// cluster, one that is still there after its grace period goes on to use it: nothing but its end removes a pod here.
func usedByPod(pod *corev1.Pod) corev1.ResourceList {
	ended := podspec.Ended(pod)
	if clusters.Shown(pod) || ended && !core.KeepsFiles(pod) {
		return nil
	}
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	used := named(resourcehelper.PodRequests(pod, options), resourcehelper.PodLimits(pod, options))
	if ended {
		return library.Mask(used, ofFiles)
	}
	return used
}

// named returns requests and limits by the names that they have in quotas.
func named(requests, limits corev1.ResourceList) corev1.ResourceList {
	used := corev1.ResourceList{corev1.ResourcePods: one()}
	for name, amount := range requests {
		isCompute := slices.Contains(compute, name)
		isHugePages := strings.HasPrefix(string(name), prefixHugePages)
		if isCompute || isHugePages {
			used[name] = amount
		}
		if isCompute || isHugePages || core.IsExtended(name) {
			used[prefixRequests+name] = amount
		}
	}
	for _, name := range compute {
		if amount, ok := limits[name]; ok {
			used[prefixLimits+name] = amount
		}
	}
	return used
}

// specifies returns an error if containers lack requests or limits that they must have, since a quota limits them.
func specifies(required []corev1.ResourceName, pod *corev1.Pod) error {
	if clusters.Shown(pod) {
		return nil
	}
	missing := map[corev1.ResourceName][]string{}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		has := named(c.Resources.Requests, c.Resources.Limits)
		for _, name := range required {
			base, _ := withoutPrefix(name, prefixRequests)
			base, _ = withoutPrefix(base, prefixLimits)
			if _, ok := has[name]; !ok && (base == corev1.ResourceCPU || base == corev1.ResourceMemory) {
				missing[name] = append(missing[name], c.Name)
			}
		}
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		slices.Sort(missing[name])
		said = append(said, fmt.Sprintf("%s for: %s", name, strings.Join(missing[name], ",")))
	}
	if len(said) == 0 {
		return nil
	}
	return fmt.Errorf("must specify %s", strings.Join(said, "; "))
}

// inScope reports whether a quota with a scope counts a pod (ResourceQuotaScope).
func inScope(s corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return terminating(pod)
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminating(pod)
	case corev1.ResourceQuotaScopeBestEffort:
		return core.PodQOS(&pod.Spec) == corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return core.PodQOS(&pod.Spec) != corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopePriorityClass:
		return selects(s, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return reachesOtherNamespaces(pod.Spec.Affinity)
	}
	return false
}

// terminating reports whether a pod will end by itself.
func terminating(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

func selects(s corev1.ScopedResourceSelectorRequirement, class string) bool {
	switch s.Operator {
	case corev1.ScopeSelectorOpExists:
		return class != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	case corev1.ScopeSelectorOpIn:
		return class != "" && slices.Contains(s.Values, class)
	case corev1.ScopeSelectorOpNotIn:
		return !slices.Contains(s.Values, class)
	}
	return false
}

func reachesOtherNamespaces(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, t := range preferred {
			terms = append(terms, t.PodAffinityTerm)
		}
	}
	if to := a.PodAffinity; to != nil {
		add(to.RequiredDuringSchedulingIgnoredDuringExecution, to.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if from := a.PodAntiAffinity; from != nil {
		add(from.RequiredDuringSchedulingIgnoredDuringExecution, from.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
		return len(t.Namespaces) > 0 || t.NamespaceSelector != nil
	})
}
