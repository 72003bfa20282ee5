package host

import (
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Pids names processes and threads among the resources of a machine (KubeletConfiguration.SystemReserved).
const Pids corev1.ResourceName = "pid"

const (
	// A kubelet keeps as much free, as its default threshold of eviction.
	defaultReservedMemory = 100 << 20
	// Who counts on more of them names them; a host whose last process ID is taken cannot even be logged in to.
	defaultReservedPidsShare = 4
)

// Reserved returns what of a machine with that capacity is kept from pods: what a setting names, and the rest by
// default.
func Reserved(named, capacity corev1.ResourceList) corev1.ResourceList {
	pids := capacity[Pids]
	list := corev1.ResourceList{
		corev1.ResourceMemory: *resource.NewQuantity(defaultReservedMemory, resource.BinarySI),
		Pids:                  *resource.NewQuantity(pids.Value()/defaultReservedPidsShare, resource.DecimalSI),
	}
	maps.Copy(list, named)
	return list
}

// CheckReserved returns an error if a setting names more of something than the machine has, of which pods would get
// nothing, and wait for ever. A kubelet refuses to start then.
func CheckReserved(named, capacity corev1.ResourceList) error {
	for name, amount := range named {
		if has := capacity[name]; amount.Cmp(has) > 0 {
			return fmt.Errorf("system-reserved: %s=%s is more than this machine has (%s)", name, amount.String(), has.String())
		}
	}
	return nil
}

// PidsCapacity returns how many processes and threads the kernel lets run at a time. It is no part of Capacity since no
// pod asks for them.
func PidsCapacity() (*resource.Quantity, error) {
	least := int64(0)
	for _, setting := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		n, err := strconv.ParseInt(line(setting), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", setting, err)
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return resource.NewQuantity(least, resource.DecimalSI), nil
}
