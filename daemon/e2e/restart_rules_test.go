package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Which exits start a container again, or all of them (Container.RestartPolicyRules).
func TestRestartPolicyRules(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: retriable}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - name: i
    image: busybox:1.36
    restartPolicy: Never
    restartPolicyRules: [{action: Restart, exitCodes: {operator: NotIn, values: [0, 1]}}]
    command: [sh, -c, "test -f /v/i && exit 0; touch /v/i; exit 41"]
    volumeMounts: [{name: v, mountPath: /v}]
  containers:
  - name: c
    image: busybox:1.36
    restartPolicy: Never
    restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]
    command: [sh, -c, "test -f /v/c && exit 43; touch /v/c; exit 42"]
    volumeMounts: [{name: v, mountPath: /v}]
`)
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: anew}
spec:
  restartPolicy: Never
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: i, image: "busybox:1.36", command: [sh, -c, "echo i >> /v/log"], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
  - name: worker
    image: busybox:1.36
    command: [sh, -c, "echo w >> /v/log; test -f /v/failed && exit 0; touch /v/up; sleep 1000"]
    volumeMounts: [{name: v, mountPath: /v}]
  - name: watcher
    image: busybox:1.36
    restartPolicy: Never
    restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]
    command: [sh, -c, "if test -f /v/failed; then until test $(wc -l < /v/log) = 4; do sleep 0.05; done; cat /v/log; exit 0; fi; until test -f /v/up; do sleep 0.05; done; touch /v/failed; exit 42"]
    volumeMounts: [{name: v, mountPath: /v}]
`)
	p := d.podUntil("retriable", "has ended", ended)
	i, c := p.Status.InitContainerStatuses[0], p.Status.ContainerStatuses[0]
	if i.RestartCount != 1 || i.LastTerminationState.Terminated.ExitCode != 41 || i.State.Terminated.ExitCode != 0 {
		t.Errorf("the init container: %+v", i)
	}
	if c.RestartCount != 1 || c.LastTerminationState.Terminated.ExitCode != 42 || c.State.Terminated.ExitCode != 43 || p.Status.Phase != corev1.PodFailed {
		t.Errorf("the container: %+v of a pod that is %s", c, p.Status.Phase)
	}

	p = d.podUntil("anew", "has ended", ended)
	if p.Status.Phase != corev1.PodSucceeded {
		t.Errorf("the pod is %s", p.Status.Phase)
	}
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if s.RestartCount != 1 || s.LastTerminationState.Terminated == nil {
			t.Errorf("%s was not started anew: %+v", s.Name, s)
		}
	}
	if got := strings.Fields(d.jobctl("logs", "anew", "-c", "watcher")); len(got) != 4 || got[0] != "i" || got[2] != "i" {
		t.Errorf("the containers ran as %q", got)
	}
	if got := d.jobctl("get", "pod", "anew", "-o", `jsonpath={.status.conditions[?(@.type=="AllContainersRestarting")].reason}`); got != "PodCompleted" {
		t.Errorf("the condition says %q", got)
	}
}
