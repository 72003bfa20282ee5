package admit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/creation"
	"github.com/jobd/jobd/store"
)

// LimitRanges refuses resizes of pods and changes of claims that the LimitRanges of their namespace do not allow. For new ones
// it is a rule of package creation.
type LimitRanges struct{ Store *store.Store }

var _ admission.ValidationInterface = LimitRanges{}

// Handles implements admission.Interface.
func (LimitRanges) Handles(op admission.Operation) bool { return op == admission.Update }

// Validate implements admission.ValidationInterface.
func (l LimitRanges) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if _, ok := a.GetObject().(*corev1.Pod); ok && a.GetSubresource() != "resize" {
		return nil
	}
	return answer(creation.CheckLimitRanges(ctx, requestOf(l.Store, a)))
}
