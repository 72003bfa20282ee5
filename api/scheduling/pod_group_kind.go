package scheduling

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/kind"
)

// SetPodGroupDefaults fills in what a manifest left out.
func SetPodGroupDefaults(g *schedulingv1beta1.PodGroup) {
	if g.Spec.DisruptionMode == nil {
		g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}
	}
}

// SetPodGroupPriority sets a new group's priority to that of its class, as SetPodPriority does for a pod.
func SetPodGroupPriority(g *schedulingv1beta1.PodGroup, classes []*schedulingv1.PriorityClass) error {
	like := corev1.PodSpec{PriorityClassName: g.Spec.PriorityClassName, Priority: g.Spec.Priority}
	if err := SetPodPriority(&like, classes); err != nil {
		return err
	}
	g.Spec.PriorityClassName, g.Spec.Priority = like.PriorityClassName, like.Priority
	return nil
}

// PreparePodGroup makes a new group what is stored.
func PreparePodGroup(g *schedulingv1beta1.PodGroup) {
	g.Generation = 1
	g.Status = schedulingv1beta1.PodGroupStatus{}
}

func preparePodGroupUpdate(g, old *schedulingv1beta1.PodGroup) {
	g.Status, g.Generation = old.Status, old.Generation
	if !equality.Semantic.DeepEqual(g.Spec, old.Spec) {
		g.Generation++
	}
}

func preparePodGroupStatusUpdate(g, old *schedulingv1beta1.PodGroup) {
	g.Spec, g.Generation = old.Spec, old.Generation
}

// validatePodGroup checks a new group.
func validatePodGroup(g *schedulingv1beta1.PodGroup) field.ErrorList {
	errs := validation.ValidateObjectMeta(&g.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validatePodGroupSpec(&g.Spec, nil, field.NewPath("spec"))...)
}

// validatePodGroupUpdate checks a changed one: of what it says nothing changes but how many pods a gang needs.
func validatePodGroupUpdate(g, old *schedulingv1beta1.PodGroup) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&g.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validatePodGroupSpec(&g.Spec, &old.Spec, field.NewPath("spec"))...)
}

// validatePodGroupStatusUpdate checks a changed status.
func validatePodGroupStatusUpdate(g, old *schedulingv1beta1.PodGroup) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&g.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validatePodGroupStatus(&g.Status, &old.Status, field.NewPath("status"))...)
}

// podGroupState is one word: whether its pods have been scheduled, or why not.
func podGroupState(g *schedulingv1beta1.PodGroup) string {
	c := meta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	if c == nil {
		return "Pending"
	}
	return c.Reason
}

func podGroupWorkload(g *schedulingv1beta1.PodGroup) string {
	if g.Spec.WorkloadRef != nil {
		return g.Spec.WorkloadRef.WorkloadName
	}
	return "<none>"
}

func podGroupPolicy(g *schedulingv1beta1.PodGroup) string {
	if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
		return fmt.Sprintf("Gang(%d)", gang.MinCount)
	}
	return "Basic"
}

// PodGroupKind describes scheduling.k8s.io/v1beta1 PodGroups.
func PodGroupKind() *kind.Kind {
	doc, ref := schedulingv1beta1.PodGroupSpec{}.SwaggerDoc(), schedulingv1beta1.WorkloadReference{}.SwaggerDoc()
	return kind.Of[schedulingv1beta1.PodGroup, schedulingv1beta1.PodGroupList](kind.Description[*schedulingv1beta1.PodGroup]{
		GroupVersion: schedulingv1beta1.SchemeGroupVersion,
		Name:         "PodGroup",
		Namespaced:   true,
		Default:      SetPodGroupDefaults,
		Table: kind.Columns[*schedulingv1beta1.PodGroup]{
			kind.NameColumn[*schedulingv1beta1.PodGroup](),
			{Name: "Workload", Description: ref["workloadName"],
				Cell: func(g *schedulingv1beta1.PodGroup, _ time.Time) any { return podGroupWorkload(g) }},
			{Name: "Policy", Description: doc["schedulingPolicy"],
				Cell: func(g *schedulingv1beta1.PodGroup, _ time.Time) any { return podGroupPolicy(g) }},
			{Name: "Status", Description: "Whether the pods of the group have been scheduled, or why not.",
				Cell: func(g *schedulingv1beta1.PodGroup, _ time.Time) any { return podGroupState(g) }},
			kind.AgeColumn[*schedulingv1beta1.PodGroup](),
		},
		Rules: kind.Rules[*schedulingv1beta1.PodGroup]{
			Create:      PreparePodGroup,
			Update:      preparePodGroupUpdate,
			Check:       validatePodGroup,
			CheckUpdate: validatePodGroupUpdate,
			Warn: func(g *schedulingv1beta1.PodGroup) []string {
				return topologyWarning(g.Spec.SchedulingConstraints, field.NewPath("spec"))
			},
			Reset: kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*schedulingv1beta1.PodGroup]{
			"status": {
				Update:      preparePodGroupStatusUpdate,
				CheckUpdate: validatePodGroupStatusUpdate,
				Reset:       kind.Path("spec"),
			},
		},
	})
}
