package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// containerCgroup reads a file of a container's cgroup, given its names in the two versions.
func containerCgroup(id, v1, v2 string) string {
	for _, pattern := range []string{"/sys/fs/cgroup/*/*/" + id + "/" + v1, "/sys/fs/cgroup/*/*/*/" + id + "/" + v1,
		"/sys/fs/cgroup/*/" + id + "/" + v2, "/sys/fs/cgroup/*/*/" + id + "/" + v2} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			content, _ := os.ReadFile(found[0])
			return strings.TrimSpace(string(content))
		}
	}
	return "none"
}

// TestResize changes the resources of running containers (pods/resize, KEP-1287): their control groups follow, one is
// restarted for it, too little memory is an error that goes away, and all of that goes on after a kill of the daemon.
func TestResize(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: grows}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 0
  resources: {limits: {cpu: "1", memory: 256Mi}}
  containers:
  - name: main
    image: busybox:1.36
    resources: {requests: {cpu: 50m, memory: 16Mi}, limits: {cpu: 100m, memory: 64Mi}}
    command: [sh, -c, "head -c 20000000 /dev/zero >/dev/shm/held; exec sleep 100000"]
  - name: other
    image: busybox:1.36
    resources: {requests: {cpu: 50m, memory: 16Mi}, limits: {cpu: 100m, memory: 64Mi}}
    resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: RestartContainer}]
    command: [sleep, "100000"]
`)
		d.jobctl("wait", "--for=condition=Ready", "pod/grows", patiently)
		resize := func(patch string) {
			t.Helper()
			d.jobctl("patch", "pod", "grows", "--subresource=resize", "-p", patch)
		}
		// is waits until the containers have these limits of CPU and memory, and that many restarts.
		is := func(cpus string, want map[string][3]string) *corev1.Pod {
			t.Helper()
			var pod *corev1.Pod
			d.eventually(fmt.Sprintf("containers with %v", want), func() (err error) {
				if pod, err = d.CoreV1().Pods("default").Get(t.Context(), "grows", metav1.GetOptions{}); err != nil {
					return err
				}
				if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizeInProgress }) {
					return fmt.Errorf("in progress: %+v", pod.Status.Conditions)
				}
				for _, s := range pod.Status.ContainerStatuses {
					got := [3]string{s.Resources.Limits.Cpu().String(), s.Resources.Limits.Memory().String(), fmt.Sprint(s.RestartCount)}
					if got != want[s.Name] || s.State.Running == nil {
						return fmt.Errorf("%+v", s)
					}
					id := s.ContainerID[len("containerd://"):]
					if got, want := containerCgroup(id, "memory.limit_in_bytes", "memory.max"), fmt.Sprint(s.Resources.Limits.Memory().Value()); got != want {
						return fmt.Errorf("memory of %s: %s, want %s", s.Name, got, want)
					}
					quota := fmt.Sprint(s.Resources.Limits.Cpu().MilliValue() * 100)
					if got, _, _ := strings.Cut(containerCgroup(id, "cpu.cfs_quota_us", "cpu.max"), " "); got != quota {
						return fmt.Errorf("quota of %s: %s, want %s", s.Name, got, quota)
					}
				}
				for _, path := range append(podCgroup(string(pod.UID), "cpu.cfs_quota_us"), podCgroup(string(pod.UID), "cpu.max")...) {
					if got, _ := os.ReadFile(path); !strings.HasPrefix(string(got), cpus) {
						return fmt.Errorf("quota of the pod: %s, want %s", got, cpus)
					}
				}
				return nil
			})
			return pod
		}
		first := is("100000", map[string][3]string{"main": {"100m", "64Mi", "0"}, "other": {"100m", "64Mi", "0"}})

		resize(
			`{"spec":{"resources":{"limits":{"cpu":"1500m"}},"containers":[{"name":"main","resources":{"limits":{"cpu":"1200m","memory":"96Mi"}}},{"name":"other","resources":{"limits":{"memory":"80Mi"}}}]}}`,
		)
		is("150000", map[string][3]string{"main": {"1200m", "96Mi", "0"}, "other": {"100m", "80Mi", "1"}})
		if events := d.jobctl("events", "--for", "pod/grows"); !strings.Contains(events, "Container other resize requires restart") ||
			!strings.Contains(events, "Pod resize completed: {") {
			t.Errorf("events: %s", events)
		}

		resize(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"memory":"1Mi"},"limits":{"memory":"8Mi"}}}]}}`)
		d.jobctl("wait", "--for=jsonpath={.status.conditions[?(@.type=='PodResizeInProgress')].reason}=Error", "pod/grows", patiently)
		if why := d.jobctl("get", "pod", "grows", "-o", "jsonpath={.status.conditions[?(@.type=='PodResizeInProgress')].message}"); !strings.HasPrefix(
			why, `cannot decrease memory limits: attempting to set container "main" memory limit (8388608) below current usage`,
		) {
			t.Errorf("message: %s", why)
		}
		d.jobctl("exec", "grows", "-c", "main", "--", "rm", "/dev/shm/held")
		d.kill()
		d.serve()
		last := is("150000", map[string][3]string{"main": {"1200m", "8Mi", "0"}, "other": {"100m", "80Mi", "1"}})
		if a, b := first.Status.ContainerStatuses[0], last.Status.ContainerStatuses[0]; a.ContainerID != b.ContainerID {
			t.Errorf("it is another container: %s and %s", a.ContainerID, b.ContainerID)
		}

		resize(`{"spec":{"resources":{"limits":{"cpu":"500m"}},"containers":[{"name":"main","resources":{"limits":{"cpu":"300m"}}}]}}`)
		d.kill()
		d.serve()
		is("50000", map[string][3]string{"main": {"300m", "8Mi", "0"}, "other": {"100m", "80Mi", "1"}})
	})
}
