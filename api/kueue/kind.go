package kueue

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/kind"
)

// Kind describes Workloads.
func Kind() *kind.Kind {
	return kind.Of[Workload, WorkloadList](kind.Description[*Workload]{
		GroupVersion: GroupVersion,
		Name:         "Workload",
		Namespaced:   true,
		Table:        table(),
		Rules: kind.Rules[*Workload]{
			Create: func(w *Workload) { w.Generation, w.Status = 1, nil },
			Update: func(w, old *Workload) {
				w.Status, w.Generation = old.Status, old.Generation
				if !same(w.Spec, old.Spec) {
					w.Generation++
				}
			},
			Check:       validate,
			CheckUpdate: validateUpdate,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*Workload]{
			"status": {
				Update:      func(w, old *Workload) { w.Spec, w.Generation = old.Spec, old.Generation },
				CheckUpdate: validateUpdate,
				Reset:       kind.Path("spec"),
			},
		},
	})
}

// same reports whether two pieces of JSON say the same.
func same(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && equality.Semantic.DeepEqual(x, y)
}

// validate checks what has to be there to be kept and read; what the spec asks for is the controller's to judge.
func validate(w *Workload) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&w.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateParts(w)...)
}

func validateUpdate(w, old *Workload) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&w.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateParts(w)...)
}

func validateParts(w *Workload) (errs field.ErrorList) {
	isObject := func(raw []byte) bool {
		var object map[string]json.RawMessage
		return json.Unmarshal(raw, &object) == nil && object != nil
	}
	if !isObject(w.Spec) {
		errs = append(errs, field.Required(field.NewPath("spec"), "it has to be an object"))
	}
	if len(w.Status) == 0 {
		return errs
	}
	path := field.NewPath("status", "conditions")
	conditions, err := conditionsOf(w.Status)
	if err != nil || !isObject(w.Status) {
		return append(errs, field.Invalid(field.NewPath("status"), "object", "it has to be an object, whose conditions are a list of conditions"))
	}
	return append(errs, metav1validation.ValidateConditions(conditions, path)...)
}

// table is what kubectl prints of Workloads: the columns of the kind's definition in a cluster that are about a worker.
func table() kind.Columns[*Workload] {
	is := func(t string) func(*Workload, time.Time) any {
		return func(w *Workload, _ time.Time) any {
			if c := apimeta.FindStatusCondition(Conditions(w), t); c != nil {
				return string(c.Status)
			}
			return ""
		}
	}
	return kind.Columns[*Workload]{
		kind.NameColumn[*Workload](),
		{Name: "Admitted", Description: "Admission status", Cell: is(Admitted)},
		{Name: "Finished", Description: "Workload finished", Cell: is(Finished)},
		kind.AgeColumn[*Workload](),
	}
}
