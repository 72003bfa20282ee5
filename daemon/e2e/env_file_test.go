package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// Variables that an init container has written to a file (EnvVarSource.FileKeyRef).
func TestVariablesFromAFile(t *testing.T) {
	t.Parallel()
	d := start(t)
	pod := func(name, content string) string {
		return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: i, image: "busybox:1.36", command: [sh, -c, 'printf "%%b" "$TEXT" > /v/vars'], env: [{name: TEXT, value: "%s"}], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c, 'echo "$A:${B-unset}:$BOTH"']
    env:
    - {name: A, valueFrom: {fileKeyRef: {volumeName: v, path: vars, key: A}}}
    - {name: B, valueFrom: {fileKeyRef: {volumeName: v, path: vars, key: B, optional: true}}}
    - {name: BOTH, value: "$(A)$(A)"}
`, name, content)
	}
	d.apply(pod("good", `A='x y'\\n# B='2'\\n`))
	d.jobctl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/good", patiently)
	if got := d.jobctl("logs", "good", "-c", "c"); got != "x y:unset:x yx y\n" {
		t.Errorf("got %q", got)
	}
	d.apply(pod("bad", `A=1\\n`))
	d.eventually("the pod says what is wrong", func() error {
		got, err := d.try(
			"jobctl", nil, "get", "pod", "bad", "-o",
			"jsonpath={.status.containerStatuses[0].state.waiting.reason}: {.status.containerStatuses[0].state.waiting.message}",
		)
		if err != nil || !strings.HasPrefix(got, "CreateContainerConfigError: ") || !strings.Contains(got, "the value of A is not in single quotes") {
			return fmt.Errorf("%q, %w", got, err)
		}
		return nil
	})
}
