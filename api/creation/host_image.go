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
	var specs []*corev1.PodSpec
	var places []*field.Path
	for t, at := range podspec.Templates(r.GetObject()) {
		if errs := hostimage.CheckNames(t.Spec, at); len(errs) > 0 {
			return r.Forbidden(errs), nil
		}
		if hostimage.Uses(t.Spec) {
			specs, places = append(specs, t.Spec), append(places, at)
		}
	}
	if len(specs) == 0 {
		return nil, nil
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
		return r.Forbidden(field.ErrorList{field.Forbidden(places[0].Child("containers"), fmt.Sprintf("the image %s runs commands of this machine as a user "+
			"of it, and the namespace %s belongs to none: users have theirs by the setting users; root may by the setting host-root", hostimage.Name, ns.Name))}), nil
	}
	_, isPod := r.GetObject().(*corev1.Pod)
	var errs field.ErrorList
	for i, spec := range specs {
		errs = append(errs, hostimage.Check(spec, places[i], isPod, user == nil)...)
	}
	return r.Forbidden(errs), nil
}
