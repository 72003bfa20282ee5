package oci

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestHugePagesAreLimited(t *testing.T) {
	pages := corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}
	for _, c := range []struct {
		name            string
		limitable       []int64
		container, pod  corev1.ResourceList
		want, wantOnPod string
	}{
		{"a container to what it asks for, and to nothing of other sizes", []int64{2 << 20, 1 << 30}, pages, nil,
			"[{2MB 4194304} {1GB 0}]", "[{2MB 4194304} {1GB 0}]"},
		{"one that asks for nothing to the whole pod's", []int64{2 << 20}, nil, pages, "[{2MB 4194304}]", "[{2MB 4194304}]"},
		{"and to nothing where the pod has none", []int64{64 << 10}, nil, nil, "[{64KB 0}]", "[]"},
		{"nobody where that cannot be", nil, pages, nil, "[]", "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input(func(in *Input) {
				in.Host.CgroupV2, in.Host.HugePages = true, c.limitable
				in.Container.Resources = corev1.ResourceRequirements{Requests: c.container, Limits: c.container}
				if c.pod != nil {
					in.Pod.Spec.Resources = &corev1.ResourceRequirements{Requests: c.pod, Limits: c.pod}
				}
			})
			r := resources(in)
			if got := fmt.Sprint(r.HugepageLimits); got != c.want {
				t.Errorf("the container has %s, want %s", got, c.want)
			}
			for _, l := range r.HugepageLimits {
				if got, want := r.Unified["hugetlb."+l.Pagesize+".rsvd.max"], fmt.Sprint(l.Limit); got != want {
					t.Errorf("it may reserve %q of %s, want %s", got, l.Pagesize, want)
				}
			}
			got := "none"
			if r := PodResources(in.Pod, 0, in.Host); r != nil {
				got = fmt.Sprint(r.HugepageLimits)
			}
			if got != c.wantOnPod {
				t.Errorf("the pod has %s, want %s", got, c.wantOnPod)
			}
		})
	}
}

func TestWhereHugePagesCanBeLimited(t *testing.T) {
	for _, c := range []struct {
		name, file, content string
		v2, want            bool
	}{
		{"version 2 has the controller", "cgroup.controllers", "cpu hugetlb memory\n", true, true},
		{"version 2 has it not", "cgroup.controllers", "cpu memory\n", true, false},
		{"version 1 has it", "hugetlb/cgroup.procs", "", false, true},
		{"version 2 has it, beside version 1", "unified/cgroup.controllers", "hugetlb\n", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
				t.Fatal(err)
			}
			cgroups := path[:len(path)-len(c.file)]
			if got := limitsHugePages(cgroups, c.v2); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
