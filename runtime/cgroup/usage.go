package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jobd/jobd/internal/files"
)

// Usage is what the processes of a group have used of the machine. A figure that the host does not account is 0.
type Usage struct {
	// CPU is the processor time of all processes since the group was made, those that have ended included. User and
	// System are its parts.
	CPU, User, System time.Duration
	// Memory is what is in use now, with the page cache, in bytes. PeakMemory is the most that it has been, which cgroup v2
	// accounts from Linux 5.19.
	Memory, PeakMemory int64
	// WorkingSet is Memory without the file pages that the kernel takes back first: what a kubelet calls the working set.
	WorkingSet int64
	// Held is Memory without what the kernel takes back before it ends processes: file pages, and what it remembers of files (dentries,
	// inodes), of which an ended container leaves as much as it likes. Cgroup v1 does not tell that from other memory of the kernel,
	// so there Held is without any of that.
	Held int64
	// RSS is the anonymous memory, Cache the page cache.
	RSS, Cache int64
	// MajorFaults and MinorFaults count the page faults that did, and did not, wait for a disk.
	MajorFaults, MinorFaults int64
	// OOMKills is how many processes the kernel has killed for want of memory.
	OOMKills int
}

// Usage returns what a group uses, and whether there is such a group.
func (h Hierarchies) Usage(group string) (u Usage, ok bool) {
	for _, one := range h.all {
		dir := one.dir(group)
		if !accounts(one) {
			continue
		}
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		ok = true
		if one.v2 {
			u.readV2(dir)
			continue
		}
		if slices.Contains(one.options, "cpuacct") {
			u.readCPU(dir)
		}
		if slices.Contains(one.options, "memory") {
			u.readMemory(dir)
		}
	}
	return u, ok
}

// Shared returns how much of a group's memory is that of files in memory, which may outlive all of its processes.
func (h Hierarchies) Shared(group string) (bytes int64) {
	for _, one := range h.all {
		switch {
		case one.v2 && accounts(one):
			bytes += figures(one.dir(group), "memory.stat")["shmem"]
		case slices.Contains(one.options, "memory"):
			bytes += figures(one.dir(group), "memory.stat")["total_shmem"]
		}
	}
	return bytes
}

// Used returns the CPU and the PeakMemory of Usage, at less cost: for a group that is about to be removed.
func (h Hierarchies) Used(group string) (cpu time.Duration, peakMemory int64) {
	for _, one := range h.all {
		dir := one.dir(group)
		switch {
		case one.v2 && accounts(one): // cpu.stat is there without a controller too
			cpu += time.Duration(figures(dir, "cpu.stat")["usage_usec"]) * time.Microsecond
			peakMemory += figure(dir, "memory.peak")
		case slices.Contains(one.options, "cpuacct"):
			cpu += time.Duration(figure(dir, "cpuacct.usage"))
		}
		if slices.Contains(one.options, "memory") {
			peakMemory += figure(dir, "memory.max_usage_in_bytes")
		}
	}
	return cpu, peakMemory
}

// CountSockets reports whether groups count what sockets of TCP and UDP hold, as those of version 2 do.
func (h Hierarchies) CountSockets() bool {
	return slices.ContainsFunc(h.all, func(one hierarchy) bool { return one.v2 && accounts(one) })
}

// accounts reports whether a hierarchy accounts processors or memory. The v2 hierarchy of a hybrid host does neither.
func accounts(h hierarchy) bool {
	if !h.v2 {
		return slices.Contains(h.options, "cpuacct") || slices.Contains(h.options, "memory")
	}
	controllers, _ := files.Read(filepath.Join(h.mount, "cgroup.controllers"))
	return slices.Contains(strings.Fields(string(controllers)), "memory")
}

func (u *Usage) readV2(dir string) {
	cpu := figures(dir, "cpu.stat")
	u.CPU = time.Duration(cpu["usage_usec"]) * time.Microsecond
	u.User = time.Duration(cpu["user_usec"]) * time.Microsecond
	u.System = time.Duration(cpu["system_usec"]) * time.Microsecond
	u.Memory, u.PeakMemory = figure(dir, "memory.current"), figure(dir, "memory.peak")
	memory := figures(dir, "memory.stat")
	u.setMemory(memory["anon"], memory["file"], memory["inactive_file"], memory["active_file"], memory["slab_reclaimable"],
		memory["pgmajfault"], memory["pgfault"])
	u.OOMKills = int(figures(dir, "memory.events")["oom_kill"])
}

func (u *Usage) readCPU(dir string) {
	u.CPU = time.Duration(figure(dir, "cpuacct.usage"))
	u.User = time.Duration(figure(dir, "cpuacct.usage_user"))
	u.System = time.Duration(figure(dir, "cpuacct.usage_sys"))
}

func (u *Usage) readMemory(dir string) {
	u.Memory, u.PeakMemory = figure(dir, "memory.usage_in_bytes"), figure(dir, "memory.max_usage_in_bytes")
	stat := figures(dir, "memory.stat")
	u.setMemory(stat["total_rss"], stat["total_cache"], stat["total_inactive_file"], stat["total_active_file"],
		figure(dir, "memory.kmem.usage_in_bytes"), stat["total_pgmajfault"], stat["total_pgfault"])
	u.OOMKills = int(figures(dir, "memory.oom_control")["oom_kill"])
}

func (u *Usage) setMemory(anonymous, file, inactive, active, kernel, major, all int64) {
	u.RSS, u.Cache, u.WorkingSet, u.Held = anonymous, file, max(0, u.Memory-inactive), max(0, u.Memory-inactive-active-kernel)
	u.MajorFaults, u.MinorFaults = major, max(0, all-major)
}

// figure reads a file that holds one number; 0 if there is no such file.
func figure(dir, file string) int64 {
	content, err := files.Read(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	return n
}

// figures reads a file with a name and a number in each line.
func figures(dir, file string) map[string]int64 {
	content, err := files.Read(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	found := map[string]int64{}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			found[name] = n
		}
	}
	return found
}
