package core

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podWarnings returns the warnings that are sent with the response to the creation of a Pod.
func podWarnings(pod *corev1.Pod) []string {
	return append(appArmorWarnings(pod.Annotations, field.NewPath("metadata", "annotations")),
		podSpecWarnings(&pod.Spec, field.NewPath("spec"))...)
}

// PodTemplateWarnings are sent along with the answer to a write of an object with a template; path is the template's.
func PodTemplateWarnings(template *corev1.PodTemplateSpec, path *field.Path) []string {
	return append(appArmorWarnings(template.Annotations, path.Child("metadata", "annotations")),
		podSpecWarnings(&template.Spec, path.Child("spec"))...)
}

// podSpecWarnings returns warnings about likely mistakes, and then about fields that have no effect in jobd.
func podSpecWarnings(spec *corev1.PodSpec, path *field.Path) []string {
	out := deprecatedLabels(spec, path)
	if g := spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		out = append(out, fmt.Sprintf("%s: must be >= 0; negative values are invalid and will be treated as 1",
			path.Child("terminationGracePeriodSeconds")))
	}
	out = append(out, fractionalBytes(spec.Overhead, path.Child("overhead"))...)
	for i := range spec.InitContainers {
		out = append(out, containerWarnings(&spec.InitContainers[i], path.Child("initContainers").Index(i))...)
	}
	for i := range spec.Containers {
		out = append(out, containerWarnings(&spec.Containers[i], path.Child("containers").Index(i))...)
	}
	out = append(out, modesInDecimal(spec, path)...)
	out = append(out, matchNoPod(spec, path)...)
	return append(out, warnings(spec, path)...)
}

// deprecatedNodeLabels are labels of nodes that have gone out of use, with what a cluster says of them.
var deprecatedNodeLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
	"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

// deprecatedLabels warns of such labels where a pod says which nodes it is for.
func deprecatedLabels(spec *corev1.PodSpec, path *field.Path) (out []string) {
	for _, label := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		if words, ok := deprecatedNodeLabels[label]; ok {
			out = append(out, fmt.Sprintf("%s: %s", path.Child("nodeSelector").Key(label), words))
		}
	}
	warn := func(label string, at *field.Path) {
		if words, ok := deprecatedNodeLabels[label]; ok {
			out = append(out, fmt.Sprintf("%s: %s is %s", at, label, words))
		}
	}
	matches := func(term *corev1.NodeSelectorTerm, at *field.Path) {
		for i, e := range term.MatchExpressions {
			warn(e.Key, at.Child("matchExpressions").Index(i).Child("key"))
		}
	}
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		affinity, at := spec.Affinity.NodeAffinity, path.Child("affinity", "nodeAffinity")
		if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			at := at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
			for i := range required.NodeSelectorTerms {
				matches(&required.NodeSelectorTerms[i], at.Index(i))
			}
		}
		at = at.Child("preferredDuringSchedulingIgnoredDuringExecution")
		for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
			matches(&affinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference, at.Index(i).Child("preference"))
		}
	}
	for i, c := range spec.TopologySpreadConstraints {
		warn(c.TopologyKey, path.Child("topologySpreadConstraints").Index(i).Child("topologyKey"))
	}
	return out
}

// matchNoPod warns of terms about other pods that have no selector of labels, and so are about no pod.
func matchNoPod(spec *corev1.PodSpec, path *field.Path) (out []string) {
	warn := func(s *metav1.LabelSelector, at *field.Path) {
		if s == nil {
			out = append(out, fmt.Sprintf("%s: a null labelSelector results in matching no pod", at.Child("labelSelector")))
		}
	}
	for i, c := range spec.TopologySpreadConstraints {
		warn(c.LabelSelector, path.Child("topologySpreadConstraints").Index(i))
	}
	if spec.Affinity == nil {
		return out
	}
	terms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, at *field.Path) {
		for i, t := range required {
			warn(t.LabelSelector, at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))
		}
		for i, t := range preferred {
			warn(t.PodAffinityTerm.LabelSelector,
				at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm"))
		}
	}
	at := path.Child("affinity")
	if a := spec.Affinity.PodAffinity; a != nil {
		terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))
	}
	return out
}

func fractionalBytes(amounts corev1.ResourceList, path *field.Path) (out []string) {
	for _, name := range [...]corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := amounts[name]; ok && q.MilliValue()%1000 != 0 {
			out = append(out, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
				path.Key(string(name)), q.String()))
		}
	}
	return out
}

func containerWarnings(c *corev1.Container, path *field.Path) []string {
	var out []string
	out = append(out, fractionalBytes(c.Resources.Limits, path.Child("resources", "limits"))...)
	out = append(out, fractionalBytes(c.Resources.Requests, path.Child("resources", "requests"))...)
	seen := map[string]bool{}
	for i, v := range c.Env {
		if seen[v.Name] {
			out = append(out, fmt.Sprintf("%s: hides previous definition of %q, which may be dropped when using apply",
				path.Child("env").Index(i), v.Name))
		}
		seen[v.Name] = true
	}
	ports := map[string]int{}
	for i, p := range c.Ports {
		key := fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol)
		if first, ok := ports[key]; ok {
			out = append(out, fmt.Sprintf("%s: duplicate port definition with %s", path.Child("ports").Index(i),
				path.Child("ports").Index(first)))
			continue
		}
		ports[key] = i
	}
	return out
}
