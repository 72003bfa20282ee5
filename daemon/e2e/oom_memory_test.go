package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The next attempt has more memory after an OOM kill.
func TestMoreMemoryAfterAnOOMKill(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none", "--pod-backoff-base", "100ms", "--pod-backoff-cap", "100ms")
	// tail keeps in memory what it is to print at the end.
	d.apply(jobManifest{
		name: "hungry", metadata: `annotations: {jobd.dev/oom-memory-factor: "2", jobd.dev/oom-memory-max: 100Mi}`,
		spec:      "completions: 1, completionMode: Indexed, backoffLimitPerIndex: 5",
		container: "resources: {limits: {memory: 16Mi}, requests: {memory: 8Mi}}",
		program:   []string{"sh", "-c", "head -c 40000000 /dev/zero | tail -c 40000000 >/dev/null"},
	}.String())
	d.complete("hungry")
	memory := map[string]string{} // by the kills before
	for _, p := range d.pods("hungry") {
		r := p.Spec.Containers[0].Resources
		memory[p.Annotations["jobd.dev/oom-kills"]] = r.Limits.Memory().String() + "/" + r.Requests.Memory().String()
		if killed := p.Status.ContainerStatuses[0].State.Terminated.Reason == "OOMKilled"; killed != (p.Status.Phase == corev1.PodFailed) {
			t.Errorf("%s: %+v", p.Name, p.Status)
		}
		if out := d.jobctl("why", "pods/"+p.Name); p.Annotations["jobd.dev/oom-kills"] == "1" && (!strings.Contains(out, "32Mi instead of 16Mi") ||
			!strings.Contains(out, "The next pod has 2 times as much, up to 100Mi")) {
			t.Errorf("why:\n%s", out)
		}
	}
	if len(memory) != 3 || memory[""] != "16Mi/8Mi" || memory["1"] != "32Mi/16Mi" || memory["2"] != "64Mi/32Mi" {
		t.Errorf("%v", memory)
	}
	for _, c := range []struct{ annotations, restart, want string }{
		{`jobd.dev/oom-memory-factor: "1"`, "Never", `metadata.annotations[jobd.dev/oom-memory-factor]: Invalid value: "1": must be a number above 1`},
		{`jobd.dev/oom-memory-factor: "2"`, "Never", `metadata.annotations[jobd.dev/oom-memory-max]: Required value`},
		{`jobd.dev/oom-memory-factor: "2", jobd.dev/oom-memory-max: 1Gi`, "OnFailure", "needs restartPolicy Never"},
	} {
		bad := jobManifest{name: "bad", metadata: "annotations: {" + c.annotations + "}", pod: "restartPolicy: " + c.restart}.String()
		if out, err := d.try("jobctl", []byte(bad), "apply", "-f", "-"); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v, %s", c.annotations, err, out)
		}
	}
}
