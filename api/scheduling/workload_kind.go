package scheduling

import (
	"strings"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/kind"
)

// validateWorkload checks a new workload.
func validateWorkload(w *schedulingv1beta1.Workload) field.ErrorList {
	errs := validation.ValidateObjectMeta(&w.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateWorkloadSpec(&w.Spec, nil, field.NewPath("spec"))...)
}

// validateWorkloadUpdate checks a changed one: of what it says nothing changes but how many pods a gang needs.
func validateWorkloadUpdate(w, old *schedulingv1beta1.Workload) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&w.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateWorkloadSpec(&w.Spec, &old.Spec, field.NewPath("spec"))...)
}

func prepareWorkloadUpdate(w, old *schedulingv1beta1.Workload) {
	w.Generation = old.Generation
	if !equality.Semantic.DeepEqual(w.Spec, old.Spec) {
		w.Generation++
	}
}

func workloadWarnings(w *schedulingv1beta1.Workload) (warnings []string) {
	for i := range w.Spec.PodGroupTemplates {
		warnings = append(warnings, topologyWarning(w.Spec.PodGroupTemplates[i].SchedulingConstraints,
			field.NewPath("spec", "podGroupTemplates").Index(i))...)
	}
	return warnings
}

// WorkloadKind describes scheduling.k8s.io/v1beta1 Workloads.
func WorkloadKind() *kind.Kind {
	doc := schedulingv1beta1.WorkloadSpec{}.SwaggerDoc()
	return kind.Of[schedulingv1beta1.Workload, schedulingv1beta1.WorkloadList](kind.Description[*schedulingv1beta1.Workload]{
		GroupVersion: schedulingv1beta1.SchemeGroupVersion,
		Name:         "Workload",
		Namespaced:   true,
		Table: kind.Columns[*schedulingv1beta1.Workload]{
			kind.NameColumn[*schedulingv1beta1.Workload](),
			{Name: "Controller", Description: doc["controllerRef"],
				Cell: func(w *schedulingv1beta1.Workload, _ time.Time) any { return workloadController(w) }},
			{Name: "Pod-Groups", Description: doc["podGroupTemplates"],
				Cell: func(w *schedulingv1beta1.Workload, _ time.Time) any { return workloadGroups(w) }},
			kind.AgeColumn[*schedulingv1beta1.Workload](),
		},
		Rules: kind.Rules[*schedulingv1beta1.Workload]{
			Create:      func(w *schedulingv1beta1.Workload) { w.Generation = 1 },
			Update:      prepareWorkloadUpdate,
			Check:       validateWorkload,
			CheckUpdate: validateWorkloadUpdate,
			Warn:        workloadWarnings,
		},
	})
}

// workloadController returns whose pods these are: "Job/train".
func workloadController(w *schedulingv1beta1.Workload) string {
	if ref := w.Spec.ControllerRef; ref != nil {
		return ref.Kind + "/" + ref.Name
	}
	return "<none>"
}

func workloadGroups(w *schedulingv1beta1.Workload) string {
	var names []string
	for i := range w.Spec.PodGroupTemplates {
		names = append(names, w.Spec.PodGroupTemplates[i].Name)
	}
	return strings.Join(names, ",")
}
