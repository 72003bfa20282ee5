package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// When pods have nearly all memory that they may have, the one that holds most beyond its request is evicted, wherever it holds it:
// what is in volumes in memory the kernel could not free, and would end the processes of others for.
func TestMemoryPressure(t *testing.T) {
	needContainers(t)
	total := number(t, "/proc/meminfo", "MemTotal:") << 10
	d := start(t, "--system-reserved", fmt.Sprintf("memory=%d", total-300<<20), "--eviction-pressure-transition-period", "1s")
	d.apply(onePod("small", "busybox:1.36", "dd if=/dev/zero of=/dev/shm/f bs=1M count=20; sleep 1000"))
	d.podUntil("small", "runs", runs)
	const fills = `command: [sh, -c, "dd if=/dev/zero of=/v/f bs=1M count=250; sleep 1"], volumeMounts: [{name: v, mountPath: /v}]`
	for name, containers := range map[string]string{
		"hog":    `containers: [{name: c, image: "busybox:1.36", ` + strings.Replace(fills, "sleep 1", "sleep 1000", 1) + `}]`,
		"leaver": `initContainers: [{name: i, image: "busybox:1.36", ` + fills + `}], containers: [{name: c, image: "busybox:1.36", command: [sleep, "1000"]}]`,
	} {
		d.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {restartPolicy: Never, volumes: [{name: v, emptyDir: {medium: Memory}}], %s}}`,
			name, containers))
		p := d.podUntil(name, "has failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
		const words = "The node was low on resource: memory. Threshold quantity: 100Mi, available: "
		if p.Status.Reason != "Evicted" || !strings.HasPrefix(p.Status.Message, words) {
			t.Errorf("%s, %s: %q", name, p.Status.Reason, p.Status.Message)
		}
		d.eventually("there is room again", func() error {
			list, err := d.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if err == nil && len(list.Items[0].Spec.Taints) > 0 {
				err = fmt.Errorf("taints: %v", list.Items[0].Spec.Taints)
			}
			return err
		})
	}
	if p := d.podUntil("small", "runs", runs); p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("the other pod was restarted")
	}
}

// Pods give files in memory to another pod of their namespace and end. No limit holds that any more, and it is that one which is evicted.
func TestMemoryThatIsHandedOver(t *testing.T) {
	needContainers(t)
	path := attacker(t)
	total := number(t, "/proc/meminfo", "MemTotal:") << 10
	d := start(t, "--system-reserved", fmt.Sprintf("memory=%d", total-300<<20), "--eviction-pressure-transition-period", "1s")
	d.importAttacker(path)
	d.apply(onePod("small", "busybox:1.36", "dd if=/dev/zero of=/dev/shm/f bs=1M count=20; sleep 1000"))
	d.podUntil("small", "runs", runs)
	d.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: theirs}}`)
	const pod = `restartPolicy: Never, securityContext: {fsGroup: 1000}, volumes: [{name: v, persistentVolumeClaim: {claimName: shared}}], containers: [
		{name: c, image: "docker.io/hostile/attacker:1", command: [/attacker, %s], resources: {limits: {memory: %s}}, volumeMounts: [{name: v, mountPath: /v}],
		securityContext: {runAsUser: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]`
	d.apply(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared, namespace: theirs}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 10Mi}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: taker, namespace: theirs}, spec: {` + fmt.Sprintf(pod, "take, /v/socket", "48Mi") + `}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: givers, namespace: theirs}, spec: {completions: 3, parallelism: 1, backoffLimit: 100, template: {spec: {` +
		fmt.Sprintf(pod, `give, /v/socket, "62914560"`, "100Mi") + `}}}}`)
	d.eventually("who has it all is evicted", func() error {
		p, err := d.CoreV1().Pods("theirs").Get(t.Context(), "taker", metav1.GetOptions{})
		if err == nil && p.Status.Reason != "Evicted" {
			err = fmt.Errorf("it is %s %s", p.Status.Phase, p.Status.Reason)
		}
		return err
	})
	if p := d.podUntil("small", "runs", runs); p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("the other pod was restarted")
	}
}

// TestWhyThereIsNoMemory: under memory pressure pods wait that ask for nothing, and are told why.
func TestWhyThereIsNoMemory(t *testing.T) {
	t.Parallel()
	d := start(t, "--eviction-hard", "memory.available<99.9%")
	d.eventually("the node is under pressure", func() error {
		if out := d.jobctl("get", "nodes", "-o", "jsonpath={.items[0].spec.taints}"); !strings.Contains(out, "memory-pressure") {
			return fmt.Errorf("its taints are %s", out)
		}
		return nil
	})
	d.apply(onePod("waits", "busybox:1.36", "true"))
	d.eventually("it says that the memory is full", func() error {
		out := strings.Join(strings.Fields(d.jobctl("why", "pods/waits")), " ")
		for _, words := range []string{"the memory of the machine is full", "memory.available is ", "it needs no toleration", "jobctl top pods"} {
			if !strings.Contains(out, words) {
				return fmt.Errorf("no %q in %s", words, out)
			}
		}
		return nil
	})
	d.apply(`{apiVersion: v1, kind: Pod, metadata: {name: asks}, spec: {restartPolicy: Never, containers: [
		{name: c, image: "busybox:1.36", command: ["true"], resources: {requests: {memory: 1Mi}}}]}}`)
	d.podUntil("asks", "has been started", func(p *corev1.Pod) bool { return p.Status.StartTime != nil })
}
