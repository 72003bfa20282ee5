package containerd

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestLimits(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		p := pod("u1", "sleep 1000")
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}
		c := r.container(t, p, "main")
		r.start(t, c)
		files := map[string]string{
			"cpu/ID/cpu.shares": "512", "cpu/ID/cpu.cfs_quota_us": "50000", "memory/ID/memory.limit_in_bytes": "33554432",
		}
		if r.host.CgroupV2 {
			files = map[string]string{"ID/cpu.max": "50000 100000", "ID/memory.max": "33554432", "ID/memory.oom.group": "1"}
		}
		for file, want := range files {
			path := "/sys/fs/cgroup/" + strings.Replace(file, "ID", strings.TrimPrefix(r.config.CgroupParent, "/")+"/"+c.ID, 1)
			got, err := os.ReadFile(path)
			if err != nil || strings.TrimSpace(string(got)) != want {
				t.Errorf("%s: got %q, %v, want %s", file, got, err, want)
			}
		}
	})
}

func TestOutOfMemory(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		p := pod("u1", "x=0123456789abcdef; while :; do x=$x$x; done")
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")}
		status, _ := r.run(t, p)
		if !status.OOMKilled || status.ExitCode != 137 {
			t.Errorf("got %+v", status)
		}
	})
}
