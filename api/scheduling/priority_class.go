// Package scheduling holds the rules of scheduling.k8s.io: PriorityClass of v1, Workload and PodGroup of v1beta1, as
// the descriptions of their kinds. Beside them it says what priority a new pod or group has. All of them touch nothing
// but their arguments.
package scheduling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/kind"
)

const (
	systemPrefix = "system-"
	// HighestUserPriority is the most that a class may have which is not built in.
	HighestUserPriority = 1_000_000_000
)

// Builtin returns the two classes that are always there.
func Builtin() []*schedulingv1.PriorityClass {
	return []*schedulingv1.PriorityClass{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "system-cluster-critical", Generation: 1},
			Value:      2 * HighestUserPriority, PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
			Description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical", Generation: 1},
			Value:      2*HighestUserPriority + 1000, PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
			Description: "Used for system critical pods that must not be moved from their current node.",
		},
	}
}

// IsBuiltin reports whether a name is that of a built-in class.
func IsBuiltin(name string) bool {
	return slices.ContainsFunc(Builtin(), func(pc *schedulingv1.PriorityClass) bool { return pc.Name == name })
}

// setPriorityClassDefaults fills in what a manifest left out.
func setPriorityClassDefaults(pc *schedulingv1.PriorityClass) {
	if pc.PreemptionPolicy == nil {
		pc.PreemptionPolicy = ptr.To(corev1.PreemptLowerPriority)
	}
}

// validatePriorityClass checks a priority class, new or changed.
func validatePriorityClass(pc *schedulingv1.PriorityClass) field.ErrorList {
	name := field.NewPath("metadata", "name")
	errs := validation.ValidateObjectMeta(&pc.ObjectMeta, false, validation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	if strings.HasPrefix(pc.Name, systemPrefix) {
		if err := known(pc); err != nil {
			errs = append(errs, field.Forbidden(name,
				"priority class names with '"+systemPrefix+"' prefix are reserved for system use only. error: "+err.Error()))
		}
	} else if pc.Value > HighestUserPriority {
		errs = append(errs, field.Forbidden(field.NewPath("value"),
			fmt.Sprintf("maximum allowed value of a user defined priority is %d", HighestUserPriority)))
	}
	if p := pc.PreemptionPolicy; p != nil && *p != corev1.PreemptLowerPriority && *p != corev1.PreemptNever {
		errs = append(errs, field.NotSupported(field.NewPath("preemptionPolicy"), *p,
			[]corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}))
	}
	return errs
}

func known(pc *schedulingv1.PriorityClass) error {
	for _, b := range Builtin() {
		switch {
		case b.Name != pc.Name:
		case b.Value != pc.Value:
			return fmt.Errorf("value of %s PriorityClass must be %d", b.Name, b.Value)
		case pc.GlobalDefault:
			return fmt.Errorf("globalDefault of %s PriorityClass must be false", b.Name)
		default:
			return nil
		}
	}
	return fmt.Errorf("%s is not a known system priority class", pc.Name)
}

// validatePriorityClassUpdate checks a changed priority class: pods have got its value already.
func validatePriorityClassUpdate(pc, old *schedulingv1.PriorityClass) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&pc.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	if pc.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, validation.ValidateImmutableField(pc.PreemptionPolicy, old.PreemptionPolicy,
		field.NewPath("preemptionPolicy"))...)
}

// PriorityClassKind describes scheduling.k8s.io/v1 PriorityClasses.
func PriorityClassKind() *kind.Kind {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return kind.Of[schedulingv1.PriorityClass, schedulingv1.PriorityClassList](kind.Description[*schedulingv1.PriorityClass]{
		GroupVersion: schedulingv1.SchemeGroupVersion,
		Name:         "PriorityClass",
		ShortNames:   []string{"pc"},
		Default:      setPriorityClassDefaults,
		Table: kind.Columns[*schedulingv1.PriorityClass]{
			kind.NameColumn[*schedulingv1.PriorityClass](),
			{Name: "Value", Type: "integer", Description: doc["value"],
				Cell: func(pc *schedulingv1.PriorityClass, _ time.Time) any { return int64(pc.Value) }},
			{Name: "Global-Default", Type: "boolean", Description: doc["globalDefault"],
				Cell: func(pc *schedulingv1.PriorityClass, _ time.Time) any { return pc.GlobalDefault }},
			kind.AgeColumn[*schedulingv1.PriorityClass](),
			{Name: "PreemptionPolicy", Description: doc["preemptionPolicy"],
				Cell: func(pc *schedulingv1.PriorityClass, _ time.Time) any {
					return string(ptr.Deref(pc.PreemptionPolicy, ""))
				}},
		},
		Rules: kind.Rules[*schedulingv1.PriorityClass]{
			Create:      func(pc *schedulingv1.PriorityClass) { pc.Generation = 1 },
			Check:       validatePriorityClass,
			CheckUpdate: validatePriorityClassUpdate,
		},
	})
}
