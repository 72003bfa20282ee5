package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// When the disk is nearly full, the pod that uses most of it is evicted, which its Job can tell from a failure of its
// own; while the disk stays so, no pod starts that does not tolerate it.
func TestDiskPressure(t *testing.T) {
	t.Parallel()
	needContainers(t)
	disk := smallDisk(t, 192)
	fill(t, disk, 90) // so little that it is checked every second
	d := startIn(t, disk, "--eviction-hard", "nodefs.available<45Mi", "--eviction-pressure-transition-period", "1s", "--image-gc-high-threshold", "100")
	d.apply(onePod("small", "busybox:1.36", "head -c 1200000 /dev/zero | base64 -w 0; sleep 1000")) // its end would free nothing: logs are kept
	d.podUntil("small", "runs", runs)
	free := func() int64 {
		t.Helper()
		var left unix.Statfs_t
		if err := unix.Statfs(disk, &left); err != nil {
			t.Fatal(err)
		}
		return int64(left.Bavail) * left.Bsize >> 20
	}
	before := free()
	d.apply(`{apiVersion: batch/v1, kind: Job, metadata: {name: hog}, spec: {
		podFailurePolicy: {rules: [{action: FailJob, onPodConditions: [{type: DisruptionTarget}]}]},
		template: {spec: {restartPolicy: Never, volumes: [{name: v, emptyDir: {}}], containers: [
			{name: c, image: "busybox:1.36", volumeMounts: [{name: v, mountPath: /v}],
			 command: [sh, -c, "dd if=/dev/zero of=/f bs=1M count=20 && dd if=/dev/zero of=/v/f bs=1M count=30; sleep 1000"]}]}}}}`)
	d.eventually("the Job has failed for its pod's eviction", func() error {
		j, err := d.BatchV1().Jobs("default").Get(t.Context(), "hog", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range j.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue && c.Reason == batchv1.JobReasonPodFailurePolicy {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", j.Status)
	})
	list, err := d.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=hog"})
	if err != nil || len(list.Items) != 1 {
		t.Fatal(len(list.Items), err)
	}
	hog := list.Items[0].Status
	for _, part := range []string{"The node was low on resource: ephemeral-storage. Threshold quantity: 45Mi, available: ",
		"Container c was using ", ", request is 0, has larger consumption of ephemeral-storage. "} {
		if hog.Phase != corev1.PodFailed || hog.Reason != "Evicted" || !strings.Contains(hog.Message, part) {
			t.Errorf("%s, %s: %q lacks %q", hog.Phase, hog.Reason, hog.Message, part)
		}
	}

	pressure := func(want corev1.ConditionStatus, reason string) {
		t.Helper()
		d.eventually("the Node says "+reason, func() error {
			list, err := d.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			n := list.Items[0]
			tainted := strings.Contains(fmt.Sprint(n.Spec.Taints), "node.kubernetes.io/disk-pressure")
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeDiskPressure && c.Status == want && c.Reason == reason && tainted == (want == corev1.ConditionTrue) {
					return nil
				}
			}
			return fmt.Errorf("taints %v, conditions %v", n.Spec.Taints, n.Status.Conditions)
		})
	}
	d.eventually("what the evicted pod has written is gone", func() error {
		// All of it: anything removed later would free space while the disk is meant to be full.
		if mb := free(); mb < before-10 {
			return fmt.Errorf("%d MB are left of %d", mb, before)
		}
		return nil
	})
	pressure(corev1.ConditionFalse, "KubeletHasNoDiskPressure")

	if err := os.Remove(filepath.Join(disk, "full")); err != nil {
		t.Fatal(err)
	}
	fill(t, disk, 30)
	pressure(corev1.ConditionTrue, "KubeletHasDiskPressure")
	d.apply(onePod("new", "busybox:1.36", "true"))
	d.apply(
		`{apiVersion: v1, kind: Pod, metadata: {name: tolerant}, spec: {restartPolicy: Never, tolerations: [{key: node.kubernetes.io/disk-pressure, operator: Exists}], containers: [{name: c, image: "busybox:1.36", command: ["true"]}]}}`,
	)
	d.podUntil("tolerant", "has succeeded", succeeded)
	d.podUntil("new", "waits", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "untolerated taint") {
				return p.Status.Phase == corev1.PodPending
			}
		}
		return false
	})
	d.kill()
	d.serve()
	pressure(corev1.ConditionTrue, "KubeletHasDiskPressure")
	if err := os.Remove(filepath.Join(disk, "full")); err != nil {
		t.Fatal(err)
	}
	d.podUntil("new", "has succeeded", succeeded)
	pressure(corev1.ConditionFalse, "KubeletHasNoDiskPressure")
	if p := d.podUntil("small", "runs", runs); p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("the pod that takes nothing has been restarted")
	}
	d.eventually("events tell of it", func() error {
		events := d.jobctl("get", "events")
		for _, want := range []string{"NodeHasDiskPressure", "EvictionThresholdMet", "NodeHasNoDiskPressure", "Evicted"} {
			if !strings.Contains(events, want) {
				return errors.New("none of " + want + ":\n" + events)
			}
		}
		return nil
	})
}

// TestWhyTheDiskIsFull: a pod that waits for room on the disk is not told to tolerate a taint.
func TestWhyTheDiskIsFull(t *testing.T) {
	t.Parallel()
	d := start(t, "--eviction-hard", "nodefs.available<99.9%")
	d.eventually("the node is under pressure", func() error {
		if out := d.jobctl("get", "nodes", "-o", "jsonpath={.items[0].spec.taints}"); !strings.Contains(out, "disk-pressure") {
			return fmt.Errorf("its taints are %s", out)
		}
		return nil
	})
	d.apply(onePod("waits", "busybox:1.36", "true"))
	d.eventually("it says that the disk is full", func() error {
		out := strings.Join(strings.Fields(d.jobctl("why", "pods/waits")), " ")
		for _, words := range []string{"the disk of " + d.root + " is full", "nodefs.available is ", "it needs no toleration", "df -h"} {
			if !strings.Contains(out, words) {
				return fmt.Errorf("no %q in %s", words, out)
			}
		}
		return nil
	})
}
