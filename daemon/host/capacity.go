package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jobd/jobd/runtime/oci"
)

// Allocatable returns what pods may request together: what the machine has without what is reserved,
// overridden by what the settings name.
func Allocatable(capacity, reserved, named corev1.ResourceList) corev1.ResourceList {
	list := maps.Clone(capacity)
	takeHugePages(list)
	for name, amount := range reserved {
		left := list[name]
		if left.Sub(amount); left.Sign() < 0 {
			left.Set(0)
		}
		list[name] = left
	}
	maps.Copy(list, named)
	return list
}

// Capacity returns how much CPU, memory, huge pages and disk there is. The root directory, whose disk is meant, need
// not exist yet.
func Capacity(root string) (corev1.ResourceList, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, fmt.Errorf("memory of this machine: %w", err)
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(goruntime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(uint64(info.Totalram)*uint64(info.Unit)), resource.BinarySI),
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(existing(root), &disk); err != nil {
		return nil, fmt.Errorf("disk of %s: %w", root, err)
	}
	list[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(disk.Blocks)*disk.Bsize, resource.BinarySI)
	maps.Copy(list, readHugePages(oci.HugePagesDir))
	return list, nil
}

// readHugePages returns how much there is of each size of huge pages; nothing on a kernel without them.
func readHugePages(dir string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, size := range oci.HugePageSizes(dir) {
		var n int64
		pages := line(filepath.Join(dir, fmt.Sprintf("hugepages-%dkB", size>>10), "nr_hugepages"))
		if _, err := fmt.Sscan(pages, &n); err == nil {
			list[oci.HugePages(size)] = *resource.NewQuantity(n*size, resource.BinarySI)
		}
	}
	return list
}

// takeHugePages subtracts huge pages from the memory of a machine, as a kubelet does, since nothing else can use what
// is set aside for them.
func takeHugePages(machine corev1.ResourceList) {
	memory := machine[corev1.ResourceMemory]
	for name, amount := range machine {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			memory.Sub(amount)
		}
	}
	machine[corev1.ResourceMemory] = memory
}

// existing returns the nearest parent directory of path that exists, or path itself.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == "/" {
			return path
		}
		path = filepath.Dir(path)
	}
}
