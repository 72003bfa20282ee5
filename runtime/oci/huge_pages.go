package oci

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// HugePagesDir is where the kernel tells of huge pages, in one directory a size.
const HugePagesDir = "/sys/kernel/mm/hugepages"

// HugePageSizes lists the sizes in bytes of the pages that a directory like HugePagesDir tells of. There may be none.
func HugePageSizes(dir string) (out []int64) {
	sizes, _ := filepath.Glob(filepath.Join(dir, "hugepages-*kB"))
	for _, size := range sizes {
		var kib int64
		if _, err := fmt.Sscanf(filepath.Base(size), "hugepages-%dkB", &kib); err == nil {
			out = append(out, kib<<10)
		}
	}
	return out
}

// HugePages is the resource of pages of that many bytes: hugepages-2Mi.
func HugePages(size int64) corev1.ResourceName {
	return corev1.ResourceName(corev1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String())
}

// limitsHugePages tells whether the controller hugetlb is in the hierarchies that OCI runtimes use: where there are some of
// version 1, that is not the one of version 2 beside them, which they do not get to see (crun 1.8 would refuse to work).
func limitsHugePages(cgroups string, v2 bool) bool {
	if !v2 {
		_, err := os.Stat(filepath.Join(cgroups, "hugetlb", "cgroup.procs"))
		return err == nil
	}
	controllers, _ := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers"))
	return slices.Contains(strings.Fields(string(controllers)), "hugetlb")
}

// limitHugePages limits a container to its own pages, or else to the whole pod's.
func limitHugePages(out *specs.LinuxResources, in Input) {
	limits := corev1.ResourceList{}
	for _, size := range in.Host.HugePages {
		name := HugePages(size)
		limits[name], _ = limit(in, name)
	}
	out.HugepageLimits = hugepages(in.Host.HugePages, limits)
	if in.Host.CgroupV2 {
		// What it reserves is limited too, so that mmap fails and not the use of what it gave. Not all runtimes see to that.
		for _, l := range out.HugepageLimits {
			out.Unified["hugetlb."+l.Pagesize+".rsvd.max"] = strconv.FormatUint(l.Limit, 10)
		}
	}
}

// hugepages are limits of each size: who asks for none may have none, as with a kubelet.
func hugepages(sizes []int64, limits corev1.ResourceList) (out []specs.LinuxHugepageLimit) {
	for _, size := range sizes {
		limit := limits[HugePages(size)]
		out = append(out, specs.LinuxHugepageLimit{Pagesize: hugepageSize(size), Limit: uint64(limit.Value())})
	}
	return out
}

// hugepageSize is the size of pages in the names of the files of cgroups: 2MB.
func hugepageSize(bytes int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GB", 1 << 30}, {"MB", 1 << 20}} {
		if bytes >= unit.size {
			return strconv.FormatInt(bytes/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(bytes>>10, 10) + "KB"
}
