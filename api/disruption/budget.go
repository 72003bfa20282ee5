// Package disruption holds the rules of policy/v1: PodDisruptionBudget, which limits how many pods evictions may end at a
// time. Budgets and facts of pods go in; statuses and decisions come out. Nothing else is touched.
package disruption

import (
	"slices"
	"strconv"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/kind"
)

// Kind describes policy/v1 PodDisruptionBudgets.
func Kind() *kind.Kind {
	spec := policyv1.PodDisruptionBudgetSpec{}.SwaggerDoc()
	return kind.Of[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](kind.Description[*policyv1.PodDisruptionBudget]{
		GroupVersion: policyv1.SchemeGroupVersion,
		Name:         "PodDisruptionBudget",
		ShortNames:   []string{"pdb"},
		Namespaced:   true,
		Table: kind.Columns[*policyv1.PodDisruptionBudget]{
			kind.NameColumn[*policyv1.PodDisruptionBudget](),
			{Name: "Min Available", Description: spec["minAvailable"],
				Cell: func(b *policyv1.PodDisruptionBudget, _ time.Time) any { return orNone(b.Spec.MinAvailable) }},
			{Name: "Max Unavailable", Description: spec["maxUnavailable"],
				Cell: func(b *policyv1.PodDisruptionBudget, _ time.Time) any { return orNone(b.Spec.MaxUnavailable) }},
			{Name: "Allowed Disruptions", Type: "integer", Description: policyv1.PodDisruptionBudgetStatus{}.SwaggerDoc()["disruptionsAllowed"],
				Cell: func(b *policyv1.PodDisruptionBudget, _ time.Time) any { return int64(b.Status.DisruptionsAllowed) }},
			kind.AgeColumn[*policyv1.PodDisruptionBudget](),
		},
		Rules: kind.Rules[*policyv1.PodDisruptionBudget]{
			Create: func(b *policyv1.PodDisruptionBudget) {
				b.Status, b.Generation = policyv1.PodDisruptionBudgetStatus{}, 1
			},
			Update: func(b, old *policyv1.PodDisruptionBudget) {
				b.Status, b.Generation = old.Status, old.Generation
				if !equality.Semantic.DeepEqual(b.Spec, old.Spec) {
					b.Generation++
				}
			},
			Check:       validate,
			CheckUpdate: validateUpdate,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*policyv1.PodDisruptionBudget]{
			"status": {
				Update:      func(b, old *policyv1.PodDisruptionBudget) { b.Spec, b.Generation = old.Spec, old.Generation },
				CheckUpdate: validateStatusUpdate,
				Reset:       kind.Path("spec"),
			},
		},
	})
}

func orNone(v *intstr.IntOrString) string {
	if v == nil {
		return "N/A"
	}
	return v.String()
}

func validate(b *policyv1.PodDisruptionBudget) field.ErrorList {
	errs := validation.ValidateObjectMeta(&b.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateSpec(&b.Spec, field.NewPath("spec"))...)
}

func validateUpdate(b, old *policyv1.PodDisruptionBudget) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&b.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateSpec(&b.Spec, field.NewPath("spec"))...)
}

var policies = []policyv1.UnhealthyPodEvictionPolicyType{policyv1.AlwaysAllow, policyv1.IfHealthyBudget}

func validateSpec(spec *policyv1.PodDisruptionBudgetSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, *spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, validateAmount(spec.MinAvailable, path.Child("minAvailable"))...)
	errs = append(errs, validateAmount(spec.MaxUnavailable, path.Child("maxUnavailable"))...)
	errs = append(errs, core.BoundSelector(spec.Selector, path.Child("selector"))...)
	errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector, metav1validation.LabelSelectorValidationOptions{},
		path.Child("selector"))...)
	if p := spec.UnhealthyPodEvictionPolicy; p != nil && !slices.Contains(policies, *p) {
		errs = append(errs, field.NotSupported(path.Child("unhealthyPodEvictionPolicy"), *p, policies))
	}
	return errs
}

// validateAmount checks a number of pods, or a percentage of them.
func validateAmount(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	if v.Type == intstr.Int {
		return validation.ValidateNonnegativeField(int64(v.IntVal), path)
	}
	var errs field.ErrorList
	for _, message := range utilvalidation.IsValidPercent(v.StrVal) {
		errs = append(errs, field.Invalid(path, *v, message))
	}
	if n, err := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%")); len(errs) == 0 && (err != nil || n > 100) {
		errs = append(errs, field.Invalid(path, *v, "must not be greater than 100%"))
	}
	return errs
}

func validateStatusUpdate(b, old *policyv1.PodDisruptionBudget) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&b.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("status")
	errs = append(errs, metav1validation.ValidateConditions(b.Status.Conditions, path.Child("conditions"))...)
	for name, n := range map[string]int32{
		"disruptionsAllowed": b.Status.DisruptionsAllowed, "currentHealthy": b.Status.CurrentHealthy,
		"desiredHealthy": b.Status.DesiredHealthy, "expectedPods": b.Status.ExpectedPods,
	} {
		errs = append(errs, validation.ValidateNonnegativeField(int64(n), path.Child(name))...)
	}
	return errs
}
