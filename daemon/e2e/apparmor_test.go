package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What confines a container by AppArmor (SecurityContext.AppArmorProfile): nothing where that is asked for, and no promise
// that is not kept.
func TestAppArmorProfile(t *testing.T) {
	d := start(t)
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {restartPolicy: Never, securityContext: {appArmorProfile: {type: TYPE}}, containers: [{name: c, image: "busybox:1.36", command: ["true"]}]}}`
	out, err := d.try("jobctl", []byte(strings.ReplaceAll(pod, "TYPE", "RuntimeDefault")), "apply", "-f", "-")
	if err == nil || !strings.Contains(out+err.Error(), "spec.securityContext.appArmorProfile.type: Forbidden: jobd does not support this") {
		t.Errorf("a profile: %s, %v", out, err)
	}
	d.apply(strings.ReplaceAll(pod, "TYPE", "Unconfined"))
	if p := d.podUntil("a", "has ended", ended); p.Status.Phase != corev1.PodSucceeded {
		t.Errorf("the pod is %s", p.Status.Phase)
	}
}
