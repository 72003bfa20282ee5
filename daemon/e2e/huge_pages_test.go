package e2e

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const pagesOf2Mi = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

// moreHugePages adds that many pages of 2 MiB to the machine's and returns how many there are. It takes them back at
// the end of the test, which shows that none of them is in use any more. Tests that do so run one at a time.
func moreHugePages(t *testing.T, more int) int {
	t.Helper()
	lock, err := os.OpenFile("/run/jobd-e2e.huge-pages", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	number := func() int {
		content, _ := os.ReadFile(pagesOf2Mi)
		n, _ := strconv.Atoi(strings.TrimSpace(string(content)))
		return n
	}
	had := number()
	set := func(n int) bool {
		return os.WriteFile(pagesOf2Mi, []byte(strconv.Itoa(n)), 0) == nil && number() == n
	}
	t.Cleanup(func() {
		// A container that is being started elsewhere has a copy of the host's mounts for a moment.
		for end := time.Now().Add(patience); !set(had); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("there are %d huge pages, and not %d as before: they are still in use", number(), had)
				return
			}
		}
	})
	if !set(had + more) {
		t.Skip("needs a kernel with huge pages of 2 MiB and memory for some")
	}
	return had + more
}

// limitsHugePages reports whether the cgroups of this host's containers limit huge pages: where there are hierarchies
// of version 1, containers are in no others.
func limitsHugePages() bool {
	_, err := os.Stat("/sys/fs/cgroup/hugetlb/cgroup.procs")
	controllers, _ := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	return err == nil || slices.Contains(strings.Fields(string(controllers)), "hugetlb")
}

// A volume of huge pages takes what its pod has requested.
func TestHugePages(t *testing.T) {
	needContainers(t)
	const page = 2 << 20
	pages := moreHugePages(t, 3)
	d := start(t)
	nodes, err := d.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []corev1.ResourceList{nodes.Items[0].Status.Capacity, nodes.Items[0].Status.Allocatable} {
		if got := list["hugepages-2Mi"]; got.Value() != int64(pages)*page {
			t.Errorf("the Node has %v, and the machine %d huge pages", list, pages)
		}
	}
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  securityContext: {runAsUser: 1000, fsGroup: 2000}
  volumes: [{name: pages, emptyDir: {medium: HugePages}}]
  containers:
  - name: asks
    image: busybox:1.36
    resources: {limits: {hugepages-2Mi: "ASKED", memory: 32Mi}}
    command: [sh, -c, "fallocate -l 4M /pages/all && echo fits; fallocate -l 2M /pages/more 2>/dev/null && echo more fits; ls -n /pages/all | awk '{print $4}'"]
    volumeMounts: [{name: pages, mountPath: /pages}]
  - name: asks-not
    image: busybox:1.36
    command: [sh, -c, "` + cgroup + ` cg hugetlb.2MB.max hugetlb hugetlb.2MB.limit_in_bytes 2>/dev/null || echo not limited"]
---
`
	manifest := func(name string, asked int64) string {
		return strings.NewReplacer("NAME", name, "ASKED", resource.NewQuantity(asked, resource.BinarySI).String()).Replace(pod)
	}
	d.apply(manifest("fits", 2*page) + manifest("too-much", int64(pages+1)*page))
	p := d.podUntil("fits", "has ended", ended)
	want := map[string]string{"asks": "fits\n2000\n", "asks-not": "0\n"}
	if !limitsHugePages() {
		want = map[string]string{"asks": "fits\nmore fits\n2000\n", "asks-not": "not limited\n"}
	}
	for container, want := range want {
		if got := d.jobctl("logs", "fits", "-c", container); got != want {
			t.Errorf("%s says %q, want %q; the pod has ended as %s", container, got, want, p.Status.Phase)
		}
	}
	waits := d.podUntil("too-much", "says why it waits", func(p *corev1.Pod) bool { return p.Spec.NodeName == "" && len(p.Status.Conditions) > 0 })
	if c := waits.Status.Conditions[0]; c.Reason != corev1.PodReasonUnschedulable ||
		!strings.HasPrefix(c.Message, "0/1 nodes are available: 1 Insufficient hugepages-2Mi.") {
		t.Errorf("the one that asks for too much: %+v", c)
	}
}
