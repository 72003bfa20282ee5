package cgroup

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/runtime/oci"
)

// What a pod's containers may have together, and in which files of both versions of cgroups that stands.
func TestLimitsOfAPod(t *testing.T) {
	for _, c := range []struct {
		rule, spec string
		pids       int64
		v1, v2     []string
	}{
		{rule: "none", spec: `{restartPolicy: Never, containers: [{name: c}]}`},
		{"huge pages", `{resources: {requests: {cpu: 500m, hugepages-2Mi: 4Mi, hugepages-1Gi: 1Gi}, limits: {hugepages-2Mi: 4Mi, hugepages-1Gi: 1Gi}}, containers: [{name: c}]}`, 0,
			[]string{
				"cpu.shares=512", "hugetlb.1GB.limit_in_bytes=1073741824", "hugetlb.1GB.rsvd.limit_in_bytes=1073741824",
				"hugetlb.2MB.limit_in_bytes=4194304", "hugetlb.2MB.rsvd.limit_in_bytes=4194304",
			},
			[]string{
				"cpu.weight=20", "hugetlb.1GB.max=1073741824", "hugetlb.1GB.rsvd.max=1073741824", "hugetlb.2MB.max=4194304",
				"hugetlb.2MB.rsvd.max=4194304",
			}},
		{"huge pages of its containers", `{containers: [{name: c, resources: {requests: {hugepages-2Mi: 4Mi}}}, {name: d, resources: {requests: {hugepages-2Mi: 2Mi}}}]}`, 0,
			[]string{
				"cpu.shares=2", "hugetlb.1GB.limit_in_bytes=0", "hugetlb.1GB.rsvd.limit_in_bytes=0",
				"hugetlb.2MB.limit_in_bytes=6291456", "hugetlb.2MB.rsvd.limit_in_bytes=6291456",
			},
			[]string{"cpu.weight=1", "hugetlb.1GB.max=0", "hugetlb.1GB.rsvd.max=0", "hugetlb.2MB.max=6291456", "hugetlb.2MB.rsvd.max=6291456"}},
		{"memory, processors and processes", `{resources: {requests: {cpu: 500m}, limits: {cpu: 1, memory: 1Mi}}, containers: [{name: c}]}`, 7,
			[]string{"cpu.cfs_period_us=100000", "cpu.cfs_quota_us=100000", "cpu.shares=512", "memory.limit_in_bytes=1048576", "pids.max=7"},
			[]string{"cpu.max=100000 100000", "cpu.weight=20", "memory.max=1048576", "pids.max=7"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			p := &corev1.Pod{}
			if err := yaml.UnmarshalStrict([]byte(c.spec), &p.Spec); err != nil {
				t.Fatal(err)
			}
			var v1, v2 []string
			if limits := oci.PodResources(p, c.pids, oci.Host{HugePages: []int64{1 << 30, 2 << 20}}); limits != nil {
				for _, s := range settings(limits) {
					for _, f := range s.v1 {
						v1 = append(v1, f.name+"="+f.value)
					}
					for _, f := range s.v2 {
						v2 = append(v2, f.name+"="+f.value)
					}
				}
			}
			slices.Sort(v1)
			slices.Sort(v2)
			if fmt.Sprint(v1) != fmt.Sprint(c.v1) || fmt.Sprint(v2) != fmt.Sprint(c.v2) {
				t.Errorf("got %q and %q", v1, v2)
			}
		})
	}
}
