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
	var id *runas.Identity
	var errs field.ErrorList
	_, isPod := r.GetObject().(*corev1.Pod)
	for t, at := range podspec.Templates(r.GetObject()) {
		if id == nil {
			if id, refusal, err = RunAs(r); id == nil {
				return refusal, err
			}
		}
		errs = append(errs, id.Check(t.Spec, at, isPod)...)
	}
	return r.Forbidden(errs), nil
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
