package admit

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/batch"
)

// Gangs refuses to change the size of Jobs that are gangs automatically.
type Gangs struct{}

var _ admission.ValidationInterface = Gangs{}

func (Gangs) Handles(op admission.Operation) bool { return op == admission.Update }

func (Gangs) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	job, ok := a.GetObject().(*batchv1.Job)
	old, was := a.GetOldObject().(*batchv1.Job)
	if !ok || !was || a.GetSubresource() != "" {
		return nil
	}
	if errs := batch.ValidateAutomaticGangUpdate(job, old); len(errs) > 0 {
		return apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), job.Name, errs)
	}
	return nil
}
