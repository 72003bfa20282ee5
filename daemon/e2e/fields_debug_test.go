package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// debugFieldCases are about containers that are added to a running pod.
var debugFieldCases = []fieldCase{
	{
		fields: "PodSpec.ephemeralContainers EphemeralContainer.targetContainerName EphemeralContainer.stdin " +
			"EphemeralContainer.stdinOnce EphemeralContainer.tty",
		test: "TestDebug",
	},
	{fields: "EphemeralContainer.name EphemeralContainer.image EphemeralContainer.imagePullPolicy EphemeralContainer.command " +
		"EphemeralContainer.args EphemeralContainer.workingDir EphemeralContainer.env EphemeralContainer.envFrom " +
		"EphemeralContainer.volumeMounts EphemeralContainer.volumeDevices EphemeralContainer.securityContext " +
		"EphemeralContainer.terminationMessagePath EphemeralContainer.terminationMessagePolicy",
		pod: "debugged", spec: `{hostUsers: true, volumes: [{name: v, emptyDir: {}}, ` + claimed(
			"disk", `volumeMode: Block`,
		) + `], containers: [{name: c, volumeMounts: [{name: v, mountPath: /v}]}]}`, needs: loops,
		run: `touch /v/x`, check: func(t *testing.T, p *fieldPod) {
			if err := p.debug(`[{name: debugger, image: "other:1", imagePullPolicy: Never, command: [sh, -c], args: ["cat /content; pwd; echo $A $color; ls /v; [ -b /dev/disk ] && echo disk; id -u; echo because >/tmp/why; echo logged; exit 3"],
				workingDir: /work, env: [{name: A, value: a}], envFrom: [{configMapRef: {name: settings}}], volumeMounts: [{name: v, mountPath: /v}], volumeDevices: [{name: disk, devicePath: /dev/disk}],
				securityContext: {runAsUser: 0}, terminationMessagePath: /tmp/why, terminationMessagePolicy: FallbackToLogsOnError}]`); err != nil {
				t.Fatal(err)
			}
			pod := p.until("has a debugger that has ended", func(pod *corev1.Pod) bool {
				s := pod.Status.EphemeralContainerStatuses
				return len(s) == 1 && s[0].State.Terminated != nil
			})
			if got, want := p.jobctl("logs", p.name, "-c", "debugger"), "other\n/work\na blue\nx\ndisk\n0\nlogged\n"; got != want {
				t.Errorf("it has said %q, want %q", got, want)
			}
			if end := pod.Status.EphemeralContainerStatuses[0].State.Terminated; end.Message != "because\n" || end.ExitCode != 3 {
				t.Errorf("it has ended as %+v", end)
			}
		}},
	{fields: "EphemeralContainer.ports EphemeralContainer.resources EphemeralContainer.resizePolicy " +
		"EphemeralContainer.restartPolicy EphemeralContainer.restartPolicyRules EphemeralContainer.livenessProbe " +
		"EphemeralContainer.readinessProbe EphemeralContainer.startupProbe EphemeralContainer.lifecycle",
		pod: "plain", spec: ofC(`image: "busybox:1.36"`), check: func(t *testing.T, p *fieldPod) {
			for field, value := range map[string]string{
				"ports": "[{containerPort: 80}]", "resources": "{limits: {cpu: 1}}",
				"resizePolicy": "[{resourceName: cpu, restartPolicy: NotRequired}]", "restartPolicy": "Always",
				"restartPolicyRules": "[{action: Restart, exitCodes: {operator: In, values: [1]}}]", "livenessProbe": "{exec: {command: [a]}}",
				"readinessProbe": "{exec: {command: [a]}}", "startupProbe": "{exec: {command: [a]}}", "lifecycle": "{postStart: {exec: {command: [a]}}}",
			} {
				err := p.debug(`[{name: debugger, image: "busybox:1.36", ` + field + `: ` + value + `}]`)
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "."+field+": Forbidden: cannot be set for an Ephemeral Container") {
					t.Errorf("%s: %v", field, err)
				}
			}
		}},
}

// debug adds ephemeral containers to the pod.
func (p *fieldPod) debug(containers string) error {
	patch, err := yaml.YAMLToJSON([]byte("spec: {ephemeralContainers: " + containers + "}"))
	if err != nil {
		return err
	}
	_, err = p.CoreV1().Pods("default").Patch(p.t.Context(), p.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "ephemeralcontainers")
	return err
}
