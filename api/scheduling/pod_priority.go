package scheduling

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/utils/ptr"
)

// SetPodPriority sets a new pod's priority to that of its class, or of the default class if it names none:
// PodSpec.Priority and PodSpec.PreemptionPolicy. It is an error if there is no such class, or if the pod says something
// else already.
func SetPodPriority(spec *corev1.PodSpec, classes []*schedulingv1.PriorityClass) error {
	var class *schedulingv1.PriorityClass
	for _, c := range classes {
		switch {
		case spec.PriorityClassName == c.Name:
			class = c
		case spec.PriorityClassName == "" && c.GlobalDefault && (class == nil || c.Value < class.Value):
			class = c
		}
	}
	priority, preemption := int32(0), corev1.PreemptLowerPriority
	switch {
	case class != nil:
		spec.PriorityClassName, priority = class.Name, class.Value
		preemption = ptr.Deref(class.PreemptionPolicy, preemption)
	case spec.PriorityClassName != "":
		return fmt.Errorf("no PriorityClass with name %s was found", spec.PriorityClassName)
	}
	if p := spec.Priority; p != nil && *p != priority {
		return fmt.Errorf(
			"the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name",
			*p, priority,
		)
	}
	if p := spec.PreemptionPolicy; p != nil && *p != preemption {
		return fmt.Errorf(
			"the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed "+
				"%s from the given PriorityClass name",
			*p, preemption,
		)
	}
	spec.Priority, spec.PreemptionPolicy = &priority, &preemption
	return nil
}
