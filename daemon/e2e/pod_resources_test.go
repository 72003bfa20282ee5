package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What the containers of a pod may take together (PodSpec.Resources), and how many processes, by --pod-max-pids.
func TestResourcesOfAWholePod(t *testing.T) {
	t.Parallel()
	d := start(t, "--pod-max-pids", "40")
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: shared}
spec:
  restartPolicy: Never
  resources: {requests: {cpu: 500m}, limits: {cpu: "1", memory: 256Mi}}
  volumes: [{name: memory, emptyDir: {medium: Memory}}]
  initContainers:
  # What it has written stays, and is the pod's from then on. What is left is enough for three OCI runtimes at once.
  - {name: filler, image: "busybox:1.36", command: [dd, if=/dev/zero, of=/memory/filler, bs=1M, count=150], volumeMounts: [{name: memory, mountPath: /memory}]}
  containers:
  - name: limited
    image: busybox:1.36
    resources: {limits: {cpu: 100m, memory: 16Mi}}
    command: [sh, -c, "` + cgroup + ` cg memory.max memory memory.limit_in_bytes; touch /memory/limited; exec sleep 1000"]
    volumeMounts: [{name: memory, mountPath: /memory}]
  - name: free # takes all processes that there are when the others need none any more
    image: busybox:1.36
    volumeMounts: [{name: memory, mountPath: /memory}]
    env: [{name: LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory}}}]
    command:
    - sh
    - -c
    - |
      ` + cgroup + `
      cg memory.max memory memory.limit_in_bytes
      echo $LIMIT
      until [ -e /memory/limited ] && [ -e /memory/greedy ]; do sleep 0.1; done
      for i in $(seq 50); do sleep 1000 >/dev/null 2>&1 & done 2>&1 | grep -c fork
      sleep 1000
  - name: greedy # its buffer makes it the one that the kernel chooses
    image: busybox:1.36
    command: [dd, if=/dev/zero, of=/memory/greedy, bs=8M, count=20]
    volumeMounts: [{name: memory, mountPath: /memory}]
`)
	p := d.podUntil("shared", "has a container that was killed", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 3 && terminated(p, "greedy") != nil
	})
	if greedy := terminated(p, "greedy"); greedy.Reason != "OOMKilled" {
		t.Errorf("it took more than is left of the pod's memory: %+v", greedy)
	}
	if p.Status.QOSClass != corev1.PodQOSBurstable || p.Spec.Resources.Requests.Memory().String() != "16Mi" {
		t.Errorf("QoS class %s, requests %v", p.Status.QOSClass, p.Spec.Resources.Requests)
	}
	if got, want := d.jobctl(
		"get", "pod", "shared", "-o", "jsonpath={.status.containerStatuses[?(@.name=='limited')].allocatedResources}",
	), `{"cpu":"100m","memory":"16Mi"}`; got != want {
		t.Errorf("allocated to a container: %s, want %s", got, want)
	}
	for file, want := range map[string]string{
		"memory.limit_in_bytes memory.max": "268435456", "cpu.cfs_quota_us": "100000", "cpu.max": "100000 100000",
		"cpu.shares": "512", "cpu.weight": "20", "pids.max": "40",
	} {
		for name := range strings.FieldsSeq(file) {
			for _, path := range podCgroup(string(p.UID), name) {
				if got, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(got)) != want {
					t.Errorf("%s: %q, %v, want %s", path, got, err, want)
				}
			}
		}
	}
	if len(podCgroup(string(p.UID), "pids.max")) == 0 {
		t.Error("the pod has no cgroup of its own")
	}
	d.eventually("a container with a limit of its own has read it", func() error {
		if got := d.jobctl("logs", "shared", "-c", "limited"); got != "16777216\n" {
			return errText(got)
		}
		return nil
	})
	d.eventually("the other one has run into the pod's limit of processes", func() error {
		got := d.jobctl("logs", "shared", "-c", "free")
		if strings.HasPrefix(got, "268435456\n268435456\n") && strings.Count(got, "\n") == 3 && !strings.HasSuffix(got, "\n0\n") {
			return nil
		}
		return errText(got)
	})
	d.jobctl("delete", "pod", "shared", "--grace-period=0", "--force")
	d.eventually("its cgroup is gone", func() error {
		if left := podCgroup(string(p.UID), "cgroup.procs"); len(left) > 0 {
			return errText(strings.Join(left, " "))
		}
		return nil
	})
}

type errText string

func (e errText) Error() string { return string(e) }

func terminated(p *corev1.Pod, container string) *corev1.ContainerStateTerminated {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == container {
			return s.State.Terminated
		}
	}
	return nil
}

// podCgroup finds a file of a pod's cgroup in whichever hierarchies have it.
func podCgroup(uid, file string) []string {
	v1, _ := filepath.Glob("/sys/fs/cgroup/*/*/pod-" + uid + "/" + file)
	v2, _ := filepath.Glob("/sys/fs/cgroup/*/pod-" + uid + "/" + file)
	return append(v1, v2...)
}
