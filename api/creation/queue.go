package creation

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/runas"
)

const waitsInQueue = "the pods of this namespace, which belongs to a user of this machine, wait in the queue like those of others"

// checkQueue keeps the users of this machine in the queue: a pod that names the node, by its spec or by a binding, waits for nobody, and
// has the room that is kept for others.
func checkQueue(_ context.Context, r *Request) (refusal, err error) {
	var errs field.ErrorList
	for t, at := range podspec.Templates(r.GetObject()) {
		if t.Spec.NodeName != "" {
			errs = append(errs, field.Forbidden(at.Child("nodeName"), "must be empty: "+waitsInQueue))
		}
	}
	_, binds := r.GetObject().(*corev1.Binding)
	if !binds && len(errs) == 0 {
		return nil, nil
	}
	ns, found, err := r.From.Namespace(r.GetNamespace())
	if err != nil || !found {
		return nil, err
	}
	switch _, user, unreadable := runas.UserOf(ns); {
	case unreadable != nil:
		return r.forbidden(unreadable), nil
	case user == nil:
		return nil, nil
	case binds:
		return r.forbidden(errors.New(waitsInQueue)), nil
	}
	return r.Forbidden(errs), nil
}
