package daemon

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

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/runtime/oci"
)

// allocatable is what pods may ask for together: what the machine has, devices too, and over it what the settings name.
// Nil is anything, for pods that are only simulated.
func allocatable(c *config.Config, devices corev1.ResourceList) (corev1.ResourceList, error) {
	var list corev1.ResourceList
	if c.Runtime != "simulated" {
		var err error
		if list, err = machine(c.Root); err != nil {
			return nil, err
		}
		takeHugePages(list)
		maps.Copy(list, devices)
	}
	named, err := c.Resources()
	if err != nil {
		return nil, err
	}
	if list == nil && len(named) > 0 {
		list = corev1.ResourceList{}
	}
	maps.Copy(list, named)
	return list, nil
}

// machine is what there is of cpu, memory, huge pages and the disk of the root directory.
func machine(root string) (corev1.ResourceList, error) {
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

// readHugePages gives what there is of each size, and nothing on a kernel without any.
func readHugePages(dir string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, size := range oci.HugePageSizes(dir) {
		var n int64
		if _, err := fmt.Sscan(line(filepath.Join(dir, fmt.Sprintf("hugepages-%dkB", size>>10), "nr_hugepages")), &n); err == nil {
			list[oci.HugePages(size)] = *resource.NewQuantity(n*size, resource.BinarySI)
		}
	}
	return list
}

// takeHugePages takes them out of the memory of a machine, as a kubelet does: nobody else gets what is set aside for them.
func takeHugePages(machine corev1.ResourceList) {
	memory := machine[corev1.ResourceMemory]
	for name, amount := range machine {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			memory.Sub(amount)
		}
	}
	machine[corev1.ResourceMemory] = memory
}

// existing is the nearest directory to path that is there.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == "/" {
			return path
		}
		path = filepath.Dir(path)
	}
}
