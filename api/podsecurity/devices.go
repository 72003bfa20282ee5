package podsecurity

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/jobd/jobd/api/podspec"
)

// checkDevices forbids to add the capability MKNOD from the level baseline on, which allows it in a cluster, whose nodes have no other
// users. A user of this host can reach into a pod, by the /proc of a process there that has the same numbers, and use a device that
// the pod has made: the host's disk.
func checkDevices() policy.Check {
	return policy.Check{
		ID: "devices", Level: api.LevelBaseline,
		Versions: []policy.VersionedCheck{{MinimumVersion: api.MajorMinorVersion(1, 0), CheckPod: addsMknod}},
	}
}

func addsMknod(_ *metav1.ObjectMeta, spec *corev1.PodSpec) policy.CheckResult {
	for c := range podspec.Containers(spec) {
		if c.SecurityContext == nil || c.SecurityContext.Capabilities == nil {
			continue
		}
		if slices.ContainsFunc(c.SecurityContext.Capabilities.Add, func(c corev1.Capability) bool {
			return strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_") == "MKNOD"
		}) {
			return policy.CheckResult{
				ForbiddenReason: "devices",
				ForbiddenDetail: fmt.Sprintf("container %q must not include \"MKNOD\" in securityContext.capabilities.add", c.Name),
			}
		}
	}
	return policy.CheckResult{Allowed: true}
}
