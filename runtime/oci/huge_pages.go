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

	"github.com/jobd/jobd/api/podspec"
)

// HugePagesDir is where the kernel describes huge pages, with one directory for each size.
const HugePagesDir = "/sys/kernel/mm/hugepages"

// HugePageSizes returns the sizes, in bytes, of the pages that a directory like HugePagesDir describes. There may be
// none.
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

// HugePages returns the name of the resource for pages of that many bytes, such as hugepages-2Mi.
func HugePages(size int64) corev1.ResourceName {
	return corev1.ResourceName(corev1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String())
}

// limitsHugePages reports whether the controller hugetlb is in the hierarchies that OCI runtimes use. Where there are
// some of version 1, the hierarchy of version 2 beside them is not one of these: the runtimes do not see it (crun 1.8
// would refuse to work).
func limitsHugePages(cgroups string, v2 bool) bool {
	if !v2 {
		_, err := os.Stat(filepath.Join(cgroups, "hugetlb", "cgroup.procs"))
		return err == nil
	}
	controllers, _ := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers"))
	return slices.Contains(strings.Fields(string(controllers)), "hugetlb")
}

// limitHugePages limits a container to its own pages, or else to those of the whole pod.
func limitHugePages(out *specs.LinuxResources, in Input) {
	limits := corev1.ResourceList{}
	for _, size := range in.Host.HugePages {
		name := HugePages(size)
		limits[name], _ = limit(in, name)
	}
	out.HugepageLimits = hugepages(in.Host.HugePages, limits)
	if in.Host.CgroupV2 {
		// Reservations are limited too, so that mmap fails and not a later use of the memory. Not all runtimes do that.
		for _, l := range out.HugepageLimits {
			out.Unified["hugetlb."+l.Pagesize+".rsvd.max"] = strconv.FormatUint(l.Limit, 10)
		}
	}
}

// hugepages returns the limits of each size. A container that requests none may use none, as with a kubelet.
func hugepages(sizes []int64, limits corev1.ResourceList) (out []specs.LinuxHugepageLimit) {
	for _, size := range sizes {
		limit := limits[HugePages(size)]
		out = append(out, specs.LinuxHugepageLimit{Pagesize: hugepageSize(size), Limit: uint64(max(podspec.Amount(limit), 0))})
	}
	return out
}

// hugepageSize returns the size of pages in the names of cgroup files, such as 2MB.
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
