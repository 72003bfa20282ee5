package daemon

import (
	"log/slog"
	"maps"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/host"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/cgroup"
)

const (
	// shardsMemory is what the kernel leaves to the shards of a root when memory runs short, as far as they use it: about
	// what they take with a hundred containers.
	shardsMemory = 64 << 20
	// containerShare is what one container may have of the processes of all pods, unless a setting says otherwise.
	containerShare = 4
)

// floors keep the machine, the daemon and the shards going when pods take all they can get.
type floors struct {
	// memory, in bytes, and pids, processes and threads, are what all pods together are held to, whatever each of them may
	// have; 0 is no limit.
	memory, pids int64
	// reserved is what pods may not even ask for.
	reserved corev1.ResourceList
}

// newFloors reserves of a machine's capacity what a setting names, or else the default.
func newFloors(capacity, named corev1.ResourceList) (floors, error) {
	pids, err := host.PidsCapacity()
	if err != nil {
		return floors{}, err
	}
	capacity = maps.Clone(capacity)
	capacity[host.Pids] = *pids
	if err := host.CheckReserved(named, capacity); err != nil {
		return floors{}, err
	}
	reserved := host.Reserved(named, capacity)
	rest := host.Allocatable(capacity, reserved, nil)
	left := func(name corev1.ResourceName) int64 {
		if kept := reserved[name]; kept.IsZero() {
			return 0
		}
		amount := rest[name]
		return max(amount.Value(), 1)
	}
	f := floors{memory: left(corev1.ResourceMemory), pids: left(host.Pids), reserved: reserved}
	delete(reserved, host.Pids) // no pod asks for them
	return f, nil
}

// containerPids returns how many processes a container may have, 0 for no limit.
func (f floors) containerPids(setting int64) int64 {
	if setting >= 0 {
		return setting
	}
	return f.pids / containerShare
}

// keep holds the control groups of a root to it. A host without the controllers for it goes without.
func (f floors) keep(root string, logger *slog.Logger) {
	hierarchies, err := cgroup.Find()
	if err != nil {
		logger.Warn("cannot reserve resources for the system", "error", err)
		return
	}
	limit := func(group string, limits specs.LinuxResources) {
		if err := hierarchies.Limit(group, &limits); err != nil {
			logger.Warn("cannot reserve resources for the system", "cgroup", group, "error", err)
		}
	}
	pods, shards := runtime.CgroupParent(root), runtime.ShardCgroup(root)
	if f.memory > 0 {
		limit(pods, specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &f.memory}})
	}
	if f.pids > 0 {
		limit(pods, specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &f.pids}})
	}
	memory := int64(shardsMemory)
	protected := specs.LinuxResources{Memory: &specs.LinuxMemory{Reservation: &memory}}
	limit(shards, protected)
	names, err := hierarchies.Children(shards)
	if err != nil {
		logger.Warn("cannot reserve resources for the system", "error", err)
	}
	for _, name := range names { // what their parent is promised they have only if they are promised it too
		limit(shards+"/"+name, protected)
	}
}
