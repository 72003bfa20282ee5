package runtimeclass

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/jobd/jobd/api/core"
)

// SetPodRuntimeClass brings the overhead and the scheduling of a new pod's RuntimeClass into the pod
// (RuntimeClass.Overhead, RuntimeClass.Scheduling), as the admission plugin of that name does. class is what lookup returns
// for the name in PodSpec.RuntimeClassName, nil if there is none. An error says why the pod is to be refused; any error of
// lookup itself is returned as it is.
func SetPodRuntimeClass(spec *corev1.PodSpec, lookup func(name string) (*nodev1.RuntimeClass, error)) error {
	var class *nodev1.RuntimeClass
	if name := spec.RuntimeClassName; name != nil {
		var err error
		if class, err = lookup(*name); err != nil {
			return err
		}
		if class == nil {
			return fmt.Errorf("pod rejected: RuntimeClass %q not found", *name)
		}
	}
	if err := setOverhead(spec, class); err != nil {
		return err
	}
	if class == nil || class.Scheduling == nil {
		return nil
	}
	return setScheduling(spec, class.Scheduling)
}

func setOverhead(spec *corev1.PodSpec, class *nodev1.RuntimeClass) error {
	switch {
	case class == nil || class.Overhead == nil:
		if spec.Overhead != nil {
			return errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
		}
		return nil
	case len(spec.Overhead) > 0 && !equality.Semantic.DeepEqual(spec.Overhead, class.Overhead.PodFixed):
		return errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
	}
	spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	return nil
}

func setScheduling(spec *corev1.PodSpec, s *nodev1.Scheduling) error {
	selector := maps.Clone(spec.NodeSelector)
	if selector == nil && s.NodeSelector != nil {
		selector = map[string]string{}
	}
	for key, value := range s.NodeSelector {
		if own, ok := selector[key]; ok && own != value {
			return fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s",
				key, value, key, own)
		}
		selector[key] = value
	}
	spec.NodeSelector = selector
	// In a cluster each pod has these by now.
	core.TolerateUnreadyNode(spec)
	spec.Tolerations = mergeTolerations(append(spec.Tolerations[:len(spec.Tolerations):len(spec.Tolerations)], s.Tolerations...))
	return nil
}

// mergeTolerations leaves out what another toleration covers. Of equal ones the first stays.
func mergeTolerations(all []corev1.Toleration) []corev1.Toleration {
	var merged []corev1.Toleration
	for i, t := range all {
		redundant := false
		for _, kept := range merged {
			redundant = redundant || covers(kept, t)
		}
		for _, later := range all[i+1:] {
			redundant = redundant || covers(later, t) && !equality.Semantic.DeepEqual(later, t)
		}
		if !redundant {
			merged = append(merged, t)
		}
	}
	return merged
}

// covers reports whether one toleration tolerates all that another one does.
func covers(wide, t corev1.Toleration) bool {
	switch {
	case equality.Semantic.DeepEqual(wide, t):
		return true
	case wide.Key != t.Key && (wide.Key != "" || wide.Operator != corev1.TolerationOpExists):
		return false
	case wide.Effect != t.Effect && wide.Effect != "":
		return false
	case wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(t.TolerationSeconds == nil || *t.TolerationSeconds > *wide.TolerationSeconds):
		return false
	case wide.Operator == corev1.TolerationOpExists:
		return true
	}
	return (wide.Operator == corev1.TolerationOpEqual || wide.Operator == "") &&
		t.Operator == corev1.TolerationOpEqual && t.Value == wide.Value
}
