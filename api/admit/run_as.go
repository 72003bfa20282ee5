package admit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/creation"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/store"
)

// RunAs keeps changed objects to the user of their namespace, if it has one: containers that are added to a pod, and templates. For new
// objects it is a rule of package creation. What was there before stays, although the groups of the user may be others now.
type RunAs struct{ Store *store.Store }

var (
	_ admission.MutationInterface   = RunAs{}
	_ admission.ValidationInterface = RunAs{}
)

// Handles implements admission.Interface.
func (RunAs) Handles(op admission.Operation) bool { return op == admission.Update }

// Admit implements admission.MutationInterface.
func (s RunAs) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, old := podsOf(a)
	if old == nil || len(pod.Spec.EphemeralContainers) == len(old.Spec.EphemeralContainers) {
		return nil
	}
	id, refusal, err := creation.RunAs(requestOf(s.Store, a))
	if id != nil {
		id.FillEphemeral(&pod.Spec, old.Spec.EphemeralContainers)
	}
	return answer(refusal, err)
}

// Validate implements admission.ValidationInterface.
func (s RunAs) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, old := podsOf(a)
	switch {
	case a.GetSubresource() == "status":
		return nil
	case old != nil && len(pod.Spec.EphemeralContainers) == len(old.Spec.EphemeralContainers):
		return nil
	case old == nil && podspec.SameSpecs(a.GetObject(), a.GetOldObject()): // or it has none
		return nil
	}
	r := requestOf(s.Store, a)
	id, refusal, err := creation.RunAs(r)
	if id == nil {
		return answer(refusal, err)
	}
	var errs field.ErrorList
	for t, at := range podspec.Templates(a.GetObject()) {
		if old != nil {
			errs = append(errs, id.CheckEphemeral(t.Spec, old.Spec.EphemeralContainers, at)...)
		} else {
			errs = append(errs, id.Check(t.Spec, at, false)...)
		}
	}
	return r.Forbidden(errs)
}

// podsOf returns a pod as it is to be and as it was; nil for other objects.
func podsOf(a admission.Attributes) (pod, old *corev1.Pod) {
	pod, _ = a.GetObject().(*corev1.Pod)
	old, _ = a.GetOldObject().(*corev1.Pod)
	return pod, old
}
