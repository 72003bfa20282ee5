package admit

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/store"
)

// Prioritize keeps the users of this machine in the queue: to put a Job before those of others is for administrators. In namespaces that
// are nobody's it takes no more than the right to change the Job.
type Prioritize struct{ Store *store.Store }

var _ admission.ValidationInterface = Prioritize{}

// Handles implements admission.Interface.
func (Prioritize) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.ValidationInterface.
func (s Prioritize) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	asked, old := prioritized(a.GetObject()), prioritized(a.GetOldObject())
	for path, at := range asked {
		if at == "" || at == old[path] || roles.Administers(a.GetUserInfo()) {
			continue
		}
		r := requestOf(s.Store, a)
		ns, found, err := r.From.Namespace(a.GetNamespace())
		if err != nil || !found {
			return answer(nil, err)
		}
		if name, _, err := runas.UserOf(ns); err != nil {
			return apierrors.NewInternalError(err)
		} else if name != "" {
			return r.Forbidden(field.ErrorList{field.Forbidden(field.NewPath(path).Key(batch.PrioritizedAnnotation),
				"this namespace belongs to a user of this machine, whose Jobs wait in the queue like those of others: only an administrator puts one first")})
		}
		return nil
	}
	return nil
}

// prioritized returns what an object has in the annotation, by where that is.
func prioritized(obj runtime.Object) map[string]string {
	switch o := obj.(type) {
	case *batchv1.Job:
		return map[string]string{"metadata.annotations": o.Annotations[batch.PrioritizedAnnotation]}
	case *batchv1.CronJob:
		return map[string]string{"spec.jobTemplate.metadata.annotations": o.Spec.JobTemplate.Annotations[batch.PrioritizedAnnotation]}
	case *jobsetv1.JobSet:
		all := map[string]string{}
		for i := range o.Spec.ReplicatedJobs {
			group := &o.Spec.ReplicatedJobs[i]
			all["spec.replicatedJobs["+group.Name+"].template.metadata.annotations"] = group.Template.Annotations[batch.PrioritizedAnnotation]
		}
		return all
	}
	return nil
}
