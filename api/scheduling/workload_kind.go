package scheduling

import (
	"strings"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/core"
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
		Columns: []metav1.TableColumnDefinition{
			kind.NameColumn(),
			{Name: "Controller", Type: "string", Description: doc["controllerRef"]},
			{Name: "Pod-Groups", Type: "string", Description: doc["podGroupTemplates"]},
			kind.AgeColumn(),
		},
		Cells: func(w *schedulingv1beta1.Workload, now time.Time) []any {
			controller := "<none>"
			if ref := w.Spec.ControllerRef; ref != nil {
				controller = ref.Kind + "/" + ref.Name
			}
			var names []string
			for i := range w.Spec.PodGroupTemplates {
				names = append(names, w.Spec.PodGroupTemplates[i].Name)
			}
			return []any{w.Name, controller, strings.Join(names, ","), core.Age(w.CreationTimestamp, now)}
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
