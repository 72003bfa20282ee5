package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateTolerations checks the tolerations of a Pod, or of a RuntimeClass, which adds them to Pods.
func ValidateTolerations(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range tolerations {
		t, path := &tolerations[i], path.Index(i)
		if t.Key != "" {
			errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
		}
		if t.Key == "" && t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(path.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			errs = append(errs, invalid(path.Child("operator"), t.Value, utilvalidation.IsValidLabelValue(t.Value))...)
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(path.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
			}
		default:
			known := []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}
			if t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt {
				// A cluster lists these operators even if its feature gate for comparing numbers is off.
				known = append(known, corev1.TolerationOpLt, corev1.TolerationOpGt)
			}
			errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator, known))
		}
		if t.Effect != "" {
			errs = append(errs, oneOf(path.Child("effect"), t.Effect,
				[]corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule,
					corev1.TaintEffectPreferNoSchedule})...)
		}
	}
	return errs
}

func validateAffinity(a *corev1.Affinity, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	const hard, soft = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	if errs := boundAffinity(a, path); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	if n := a.NodeAffinity; n != nil {
		path := path.Child("nodeAffinity")
		if s := n.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
			terms := path.Child(hard, "nodeSelectorTerms")
			if len(s.NodeSelectorTerms) == 0 {
				errs = append(errs, field.Required(terms, "must have at least one node selector term"))
			}
			for i := range s.NodeSelectorTerms {
				errs = append(errs, validateNodeTerm(&s.NodeSelectorTerms[i], terms.Index(i))...)
			}
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			p, path := &n.PreferredDuringSchedulingIgnoredDuringExecution[i], path.Child(soft).Index(i)
			errs = append(errs, validateWeight(p.Weight, path)...)
			errs = append(errs, validateNodeTerm(&p.Preference, path.Child("preference"))...)
		}
	}
	podTerms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, path *field.Path) {
		for i := range required {
			errs = append(errs, validatePodTerm(&required[i], path.Child(hard).Index(i))...)
		}
		for i := range preferred {
			path := path.Child(soft).Index(i)
			errs = append(errs, validateWeight(preferred[i].Weight, path)...)
			errs = append(errs, validatePodTerm(&preferred[i].PodAffinityTerm, path.Child("podAffinityTerm"))...)
		}
	}
	if p := a.PodAffinity; p != nil {
		podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution,
			path.Child("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution,
			path.Child("podAntiAffinity"))
	}
	return errs
}

func validateWeight(weight int32, path *field.Path) field.ErrorList {
	if weight < 1 || weight > 100 {
		return field.ErrorList{field.Invalid(path.Child("weight"), weight, "must be in the range 1-100")}
	}
	return nil
}

func validateNodeTerm(term *corev1.NodeSelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, r := range term.MatchExpressions {
		path := path.Child("matchExpressions").Index(i)
		errs = append(errs, validateNodeRequirement(&r, path)...)
		errs = append(errs, metav1validation.ValidateLabelName(r.Key, path.Child("key"))...)
	}
	for i, r := range term.MatchFields {
		path := path.Child("matchFields").Index(i)
		if r.Key != metav1.ObjectNameField {
			errs = append(errs, field.Invalid(path.Child("key"), r.Key, "not a valid field selector key"))
		}
		if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
		} else if len(r.Values) != 1 {
			errs = append(errs, field.Required(path.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	}
	return errs
}

func validateNodeRequirement(r *corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			return field.ErrorList{field.Required(path.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'")}
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			return field.ErrorList{field.Forbidden(path.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")}
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			return field.ErrorList{field.Required(path.Child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")}
		}
	default:
		return field.ErrorList{field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator")}
	}
	return nil
}

func validatePodTerm(term *corev1.PodAffinityTerm, path *field.Path) field.ErrorList {
	options := metav1validation.LabelSelectorValidationOptions{}
	errs := metav1validation.ValidateLabelSelector(term.LabelSelector, options, path.Child("labelSelector"))
	errs = append(errs,
		metav1validation.ValidateLabelSelector(term.NamespaceSelector, options, path.Child("namespaceSelector"))...)
	for _, name := range term.Namespaces {
		errs = append(errs, dnsLabel(path.Child("namespace"), name)...)
	}
	errs = append(errs, validateLabelKeys(term.MatchLabelKeys, term.MismatchLabelKeys, term.LabelSelector, path)...)
	if term.TopologyKey == "" {
		errs = append(errs, field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	return append(errs, metav1validation.ValidateLabelName(term.TopologyKey, path.Child("topologyKey"))...)
}

// validateLabelKeys checks the keys whose values a selector takes from the Pod itself.
func validateLabelKeys(match, mismatch []string, selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		keys []string
		path *field.Path
	}{{match, path.Child("matchLabelKeys")}, {mismatch, path.Child("mismatchLabelKeys")}} {
		if len(list.keys) > 0 && selector == nil {
			errs = append(errs, field.Forbidden(list.path, "must not be specified when labelSelector is not set"))
			continue
		}
		for i, key := range list.keys {
			errs = append(errs, metav1validation.ValidateLabelName(key, list.path.Index(i))...)
		}
	}
	if selector != nil {
		// A key may be in an expression once: that is what it becomes when a Pod is prepared.
		seen := map[string]bool{}
		for key := range selector.MatchLabels {
			seen[key] = true
		}
		for _, e := range selector.MatchExpressions {
			if i := lastIndex(match, e.Key); i >= 0 && seen[e.Key] {
				errs = append(errs, field.Invalid(path.Index(i), e.Key, "exists in both matchLabelKeys and labelSelector"))
			}
			seen[e.Key] = true
		}
	}
	for i, key := range match {
		if slices.Contains(mismatch, key) {
			errs = append(errs, field.Invalid(path.Child("matchLabelKeys").Index(i), key,
				"exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	return errs
}

func lastIndex(list []string, value string) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == value {
			return i
		}
	}
	return -1
}

func validateSpread(constraints []corev1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	if errs := boundSpread(constraints, path); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	for i := range constraints {
		c, path := &constraints[i], path.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(path.Child("maxSkew"), c.MaxSkew, "must be greater than zero"))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(path.Child("topologyKey"), "can not be empty"))
		}
		errs = append(errs, oneOf(path.Child("whenUnsatisfiable"), c.WhenUnsatisfiable,
			[]corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway})...)
		for _, later := range constraints[i+1:] {
			if later.TopologyKey == c.TopologyKey && later.WhenUnsatisfiable == c.WhenUnsatisfiable {
				errs = append(errs, field.Duplicate(path.Child("{topologyKey, whenUnsatisfiable}"),
					fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
				break
			}
		}
		if least := c.MinDomains; least != nil {
			if *least <= 0 {
				errs = append(errs, field.Invalid(path.Child("minDomains"), *least, "must be greater than zero"))
			}
			if c.WhenUnsatisfiable != corev1.DoNotSchedule {
				errs = append(errs, field.Invalid(path.Child("minDomains"), *least,
					fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, c.WhenUnsatisfiable)))
			}
		}
		for _, policy := range []struct {
			name  string
			value *corev1.NodeInclusionPolicy
		}{{"nodeAffinityPolicy", c.NodeAffinityPolicy}, {"nodeTaintsPolicy", c.NodeTaintsPolicy}} {
			if policy.value != nil {
				errs = append(errs, oneOf(path.Child(policy.name), *policy.value,
					[]corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore})...)
			}
		}
		errs = append(errs, validateLabelKeys(c.MatchLabelKeys, nil, c.LabelSelector, path)...)
		errs = append(errs, metav1validation.ValidateLabelSelector(c.LabelSelector,
			metav1validation.LabelSelectorValidationOptions{}, path.Child("labelSelector"))...)
	}
	return errs
}

func validateGates(gates []corev1.PodSchedulingGate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var seen []string
	for i, gate := range gates {
		errs = append(errs, invalid(path.Index(i), gate.Name, utilvalidation.IsQualifiedName(gate.Name))...)
		if slices.Contains(seen, gate.Name) {
			errs = append(errs, field.Duplicate(path.Index(i), gate.Name))
		}
		seen = append(seen, gate.Name)
	}
	return errs
}

func validateSchedulingGroup(group *corev1.PodSchedulingGroup, path *field.Path) field.ErrorList {
	switch {
	case group == nil:
		return nil
	case group.PodGroupName == nil:
		return field.ErrorList{field.Invalid(path.Child("podGroupName"), group.PodGroupName, "must specify one of: `podGroupName`")}
	}
	return invalid(path.Child("podGroupName"), *group.PodGroupName,
		utilvalidation.IsDNS1123Subdomain(*group.PodGroupName))
}
