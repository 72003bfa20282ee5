package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What the node itself decides about a pod that is bound to it.
func TestTheNodeTakesOrRejectsPods(t *testing.T) {
	t.Parallel()
	d := start(t, "--allowed-unsafe-sysctls", "kernel.msg*,net.core.somaxconn", "--allocatable", "example.com/room=1")
	node := strings.TrimSpace(d.jobctl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
	pod := func(name, spec, command string) {
		d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  restartPolicy: Never
  ` + spec + `
  containers:
  - {name: c, image: "busybox:1.36", command: [sh, -c, "` + command + `"]}
`)
	}
	pod("host-name", "hostnameOverride: db.example.com", "hostname; echo $HOSTNAME; cat /etc/hostname; grep -c db.example.com /etc/hosts")
	pod("sysctls", `securityContext: {sysctls: [{name: kernel.msgmax, value: "4096"}, {name: net/core/somaxconn, value: "99"}]}`,
		"cat /proc/sys/kernel/msgmax /proc/sys/net/core/somaxconn")
	pod("labelled", `securityContext: {seLinuxOptions: {level: "s0:c1,c2"}}`, "echo runs")
	pod("named", "nodeName: "+node, "echo runs")
	for name, want := range map[string]string{
		"host-name": "db.example.com\ndb.example.com\ndb.example.com\n1\n", "sysctls": "4096\n99\n", "labelled": "runs\n", "named": "runs\n",
	} {
		if p := d.podUntil(name, "has ended", ended); p.Status.Phase != corev1.PodSucceeded {
			t.Errorf("pod %s: %+v", name, p.Status)
		}
		if got := d.jobctl("logs", name); got != want {
			t.Errorf("pod %s says %q, want %q", name, got, want)
		}
	}

	pod("away", "nodeName: elsewhere", "echo runs")
	pod("windows", "os: {name: windows}", "echo runs")
	pod("unsafe", `securityContext: {sysctls: [{name: kernel.shmmax, value: "1"}]}`, "echo runs")
	pod("large", "nodeName: "+node+"\n  resources: {requests: {cpu: 100k}}", "echo runs")
	for name, want := range map[string]string{"windows": "PodOSNotSupported", "unsafe": "SysctlForbidden", "large": "OutOfcpu"} {
		if s := d.podUntil(name, "has ended", ended).Status; s.Reason != want {
			t.Errorf("pod %s is %s: %s: %s", name, s.Phase, s.Reason, s.Message)
		}
	}
	p := d.podUntil("away", "says that it waits", func(p *corev1.Pod) bool {
		return len(p.Status.Conditions) == 1 && p.Status.Conditions[0].Reason == corev1.PodReasonUnschedulable
	})
	if p.Status.Phase != corev1.PodPending || !strings.Contains(p.Status.Conditions[0].Message, "The pod is for the node elsewhere") {
		t.Errorf("a pod for another node: %+v", p.Status)
	}
	d.jobctl("delete", "pod", "away", "--wait") // there is no kubelet to wait for

	d.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: named}
spec: {template: {spec: {restartPolicy: Never, nodeName: ` + node + `, containers: [{name: c, image: "busybox:1.36", command: ["true"]}]}}}
`)
	d.complete("named")

	// For a critical pod the node makes room.
	roomy := func(name, spec, command string) {
		d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  restartPolicy: Never
  ` + spec + `
  containers:
  - {name: c, image: "busybox:1.36", resources: {limits: {example.com/room: 1}}, command: [` + command + `]}
`)
	}
	roomy("low", "terminationGracePeriodSeconds: 1", `sleep, "1000"`)
	d.podUntil("low", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	roomy("critical", "priorityClassName: system-node-critical\n  nodeName: "+node, `"true"`)
	if p := d.podUntil("critical", "has ended", ended); p.Status.Phase != corev1.PodSucceeded {
		t.Errorf("the critical pod: %+v", p.Status)
	}
	if s := d.podUntil("low", "has ended", ended).Status; s.Phase != corev1.PodFailed || s.Reason != "Preempting" {
		t.Errorf("the pod that made room: %+v", s)
	}
}
