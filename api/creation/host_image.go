package creation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/hostimage"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/runas"
)

// fillHostImage gives a pod of the reserved image what each of them has.
func fillHostImage(r *Request) (refusal, err error) {
	if pod, ok := r.GetObject().(*corev1.Pod); ok && hostimage.Uses(&pod.Spec) {
		hostimage.Fill(&pod.Spec)
	}
	return nil, nil
}

// CheckHostImage refuses pods of the reserved image, and templates of them, in namespaces that are no user's of this machine: as whom
// they run is said by the namespace, which only administrators write, and not by the object. With hostRoot they may run as root, or as
// whom they say, in those namespaces too, as far as the Pod Security level allows.
func CheckHostImage(r *Request, hostRoot bool) (refusal, err error) {
	for spec, at := range podspec.All(r.GetObject()) {
		if refusal, err := checkHostImage(r, spec, at, hostRoot); refusal != nil || err != nil {
			return refusal, err
		}
	}
	return nil, nil
}

func checkHostImage(r *Request, spec *corev1.PodSpec, at *field.Path, hostRoot bool) (refusal, err error) {
	errs := hostimage.CheckNames(spec, at)
	if len(errs) > 0 || !hostimage.Uses(spec) {
		return r.Forbidden(errs), nil
	}
	ns, found, err := r.From.Namespace(r.GetNamespace())
	if err != nil || !found {
		return nil, err
	}
	_, user, reason := runas.UserOf(ns)
	switch {
	case reason != nil:
		return r.forbidden(reason), nil
	case user == nil && !hostRoot:
		return r.Forbidden(field.ErrorList{field.Forbidden(at.Child("containers"), fmt.Sprintf("the image %s runs commands of this machine as a user "+
			"of it, and the namespace %s belongs to none: users have theirs by the setting users; root may by the setting host-root", hostimage.Name, ns.Name))}), nil
	}
	_, isPod := r.GetObject().(*corev1.Pod)
	return r.Forbidden(hostimage.Check(spec, at, isPod, user == nil)), nil
}
