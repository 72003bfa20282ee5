package podsecurity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/jobd/jobd/api/hostimage"
	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/runas"
)

// checkHostImage forbids the reserved image from the level baseline on: it shows all files of the host, as a hostPath of / does, to
// whoever the pod says that it is. In the namespace of a user of this machine it is that user, and this is not asked.
func checkHostImage() policy.Check {
	return policy.Check{
		ID: "hostImage", Level: api.LevelBaseline,
		Versions: []policy.VersionedCheck{{MinimumVersion: api.MajorMinorVersion(1, 0), CheckPod: usesHostImage}},
	}
}

func usesHostImage(_ *metav1.ObjectMeta, spec *corev1.PodSpec) policy.CheckResult {
	if !hostimage.Uses(spec) {
		return policy.CheckResult{Allowed: true}
	}
	return policy.CheckResult{
		ForbiddenReason: "host image", ForbiddenDetail: fmt.Sprintf("the image %s is for namespaces of users of this machine", hostimage.Name),
	}
}

// excuseHostImage returns a spec as it would be with an image, and so with a network of its own, where its pods run as the user of this
// machine whom the namespace belongs to; the same one if there is nothing to excuse.
func excuseHostImage(ns *corev1.Namespace, spec *corev1.PodSpec) *corev1.PodSpec {
	if !hostimage.Uses(spec) {
		return spec
	}
	if _, user, err := runas.UserOf(ns); err != nil || user == nil {
		return spec
	}
	spec = spec.DeepCopy()
	spec.HostNetwork = false
	for c := range podspec.Containers(spec) {
		if hostimage.Is(c.Image) {
			c.Image = "excused"
		}
	}
	return spec
}

// reviewHostImage returns what a list of host paths says about the reserved image, and the attributes of an object without what the
// namespace excuses.
func reviewHostImage(ns *corev1.Namespace, paths *hostpath.List, a api.Attributes) (forbidden error, excused api.Attributes) {
	obj, err := a.GetObject()
	if err != nil {
		return nil, a
	}
	spec, at := podspec.Of(obj)
	if spec == nil || !hostimage.Uses(spec) {
		return nil, a
	}
	without := excuseHostImage(ns, spec)
	if without == spec {
		if paths != nil {
			forbidden = fmt.Errorf("%s: the image %s shows all paths of the host, and the namespace allows only %s", at, hostimage.Name, paths)
		}
		return forbidden, a
	}
	obj = obj.DeepCopyObject()
	spec, _ = podspec.Of(obj)
	*spec = *without
	return nil, replaced{a, obj}
}
