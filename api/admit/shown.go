package admit

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/podspec"
)

// Shown keeps pods that show those of a cluster for whoever may bring their logs, which is its forwarder: neither quotas nor policies are
// asked about them, so everybody else could fill a namespace with them. No template has them, since nothing here makes them.
type Shown struct {
	Access authorizer.UnconditionalAuthorizer
}

var _ admission.ValidationInterface = Shown{}

// Handles implements admission.Interface.
func (Shown) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.ValidationInterface.
func (s Shown) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" || !shows(a.GetObject()) {
		return nil
	}
	had := map[string]bool{}
	for t := range podspec.Templates(a.GetOldObject()) {
		had[t.Spec.SchedulerName] = true
	}
	_, isPod := a.GetObject().(*corev1.Pod)
	for t, at := range podspec.Templates(a.GetObject()) {
		switch name := t.Spec.SchedulerName; {
		case !clusters.IsScheduler(name) || had[name]:
		case !isPod:
			return admission.NewForbidden(a, fmt.Errorf("%s: %s is for pods that show those of a cluster; a Job runs there by spec.managedBy",
				at.Child("schedulerName"), name))
		default:
			return s.brings(ctx, a)
		}
	}
	return nil
}

// shows reports whether anything in an object names the scheduler of a cluster. It is asked of all that is written, and allocates nothing.
func shows(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *corev1.Pod:
		return clusters.IsScheduler(o.Spec.SchedulerName)
	case *batchv1.Job:
		return clusters.IsScheduler(o.Spec.Template.Spec.SchedulerName)
	}
	for t := range podspec.Templates(obj) { // of which there are few
		if clusters.IsScheduler(t.Spec.SchedulerName) {
			return true
		}
	}
	return false
}

// brings refuses those who may not bring the log of a pod.
func (s Shown) brings(ctx context.Context, a admission.Attributes) error {
	decision, _, err := s.Access.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "create", Namespace: a.GetNamespace(), APIVersion: "v1", Resource: "pods", Subresource: "log",
		ResourceRequest: true,
	})
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case decision != authorizer.DecisionAllow:
		return admission.NewForbidden(a, errors.New("only who may bring its log (create pods/log) makes a pod that shows one of a cluster"))
	}
	return nil
}
