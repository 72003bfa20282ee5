package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// cgroup is a shell function that prints a file of the container's own cgroup, given its name in version 2, and its
// controller and name in version 1.
const cgroup = `cg() { f=/sys/fs/cgroup/$1; [ -e $f ] || f=/sys/fs/cgroup/$2/$3; cat $f; }; `

func TestLimitsAreTheContainersCgroup(t *testing.T) {
	t.Parallel()
	d := start(t, "--pids-limit", "50")
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: limits}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: busybox:1.36
    resources: {requests: {cpu: 250m, memory: 32Mi}, limits: {cpu: 500m, memory: 64Mi}}
    command: [sh, -c]
    args:
    - |
      ` + cgroup + `
      cg memory.max memory memory.limit_in_bytes
      if [ -e /sys/fs/cgroup/cpu.max ]; then cat /sys/fs/cgroup/cpu.max; else echo $(cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us); fi
      cg pids.max pids pids.max
      [ -e /sys/fs/cgroup/cpu.weight ] || cat /sys/fs/cgroup/cpu/cpu.shares
---
apiVersion: v1
kind: Pod
metadata: {name: nothing-asked}
spec:
  restartPolicy: Never
  containers:
  - {name: c, image: "busybox:1.36", command: [sh, -c, "` + cgroup + ` cat /proc/self/oom_score_adj; cg cpu.weight cpu cpu.shares"]}
`)
	// It gets the least of a busy processor, and is the first to go when memory runs out.
	d.podUntil("nothing-asked", "has ended", ended)
	if got := d.jobctl("logs", "nothing-asked"); got != "1000\n1\n" && got != "1000\n2\n" { // in version 2 and in version 1
		t.Errorf("a pod that asks for nothing: %q", got)
	}
	p := d.podUntil("limits", "has ended", ended)
	want := "67108864\n50000 100000\n50\n"
	if got := d.jobctl("logs", "limits"); got != want && got != want+"256\n" { // only version 1 has shares
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if p.Status.QOSClass != corev1.PodQOSBurstable {
		t.Errorf("QoS class %s", p.Status.QOSClass)
	}
}

func TestOOMKilledIsToldFromAKill(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: oom}
spec:
  restartPolicy: Never
  containers:
  - {name: greedy, image: "busybox:1.36", command: [sh, -c, "x=a; while :; do x=$x$x; done"], resources: {limits: {memory: 32Mi}}}
  - {name: killed, image: "busybox:1.36", command: [sh, -c, "exit 137"]}
`)
	p := d.podUntil("oom", "has ended", ended)
	greedy, killed := p.Status.ContainerStatuses[0].State.Terminated, p.Status.ContainerStatuses[1].State.Terminated
	if greedy.Reason != "OOMKilled" || greedy.ExitCode != 137 {
		t.Errorf("the greedy one: %+v", greedy)
	}
	if killed.Reason != "Error" || killed.ExitCode != 137 {
		t.Errorf("the one that says it was killed: %+v", killed)
	}
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
