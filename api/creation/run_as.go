package creation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/runas"
)

// fillRunAs gives a pod the user of its namespace, if that has one.
func fillRunAs(r *Request) (refusal, err error) {
	pod, ok := r.GetObject().(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	id, refusal, err := RunAs(r)
	if id != nil {
		id.Fill(&pod.Spec)
	}
	return refusal, err
}

// checkRunAs refuses pods, and templates of them, that ask for another user than that of their namespace.
func checkRunAs(_ context.Context, r *Request) (refusal, err error) {
	_, isPod := r.GetObject().(*corev1.Pod)
	var id *runas.Identity
	for spec, at := range podspec.All(r.GetObject()) {
		if id == nil {
			if id, refusal, err = RunAs(r); id == nil {
				return refusal, err
			}
		}
		if refusal := r.Forbidden(id.Check(spec, at, isPod)); refusal != nil {
			return refusal, nil
		}
	}
	return nil, nil
}

// RunAs returns as whom the pods of the namespace of a request run; nil if they choose for themselves. Where that cannot be read,
// none is let in.
func RunAs(r *Request) (id *runas.Identity, refusal, err error) {
	ns, found, err := r.From.Namespace(r.GetNamespace())
	if err != nil || !found { // in which nothing is created
		return nil, nil, err
	}
	id, reason := runas.Of(ns)
	if reason != nil {
		refusal = r.forbidden(reason)
	}
	return id, refusal, nil
}

// maxErrors bounds how many errors are joined, which takes quadratic time.
const maxErrors = 100

// Forbidden returns the refusal for what is wrong with an object; nil for nothing.
func (r *Request) Forbidden(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return r.forbidden(errs[:min(len(errs), maxErrors)].ToAggregate())
}
