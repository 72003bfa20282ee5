package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// unlimited is what is not limited: a quota of processor time, or memory.
const unlimited = -1

// Change sets how much CPU and memory a group that exists may use. What r leaves out is no longer limited. A group that is
// gone is fs.ErrNotExist.
func (h Hierarchies) Change(group string, r *specs.LinuxResources) error {
	for _, s := range []struct {
		controller string
		v1, v2     func(dir string) []file
	}{
		{"cpu", func(string) []file { return cpuV1(r.CPU) }, func(string) []file { return cpuV2(r.CPU) }},
		{"memory", func(dir string) []file { return memoryV1(dir, r.Memory) }, func(dir string) []file { return memoryV2(dir, r.Memory) }},
	} {
		one, ok := h.of(s.controller)
		if !ok {
			continue
		}
		dir, files := one.dir(group), s.v1
		if one.v2 {
			files = s.v2
		}
		for _, f := range files(dir) {
			if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.value), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// of returns the hierarchy in which a controller is; false if there is none.
func (h Hierarchies) of(controller string) (hierarchy, bool) {
	i := slices.IndexFunc(h.all, func(one hierarchy) bool { return !one.v2 && slices.Contains(one.options, controller) })
	if i < 0 {
		i = slices.IndexFunc(h.all, func(one hierarchy) bool {
			have, _ := os.ReadFile(filepath.Join(one.mount, "cgroup.controllers"))
			return one.v2 && slices.Contains(strings.Fields(string(have)), controller)
		})
	}
	if i < 0 {
		return hierarchy{}, false
	}
	return h.all[i], true
}

func cpuV1(c *specs.LinuxCPU) []file {
	files := []file{{"cpu.shares", strconv.FormatUint(*c.Shares, 10)}}
	if c.Quota == nil {
		return append(files, file{"cpu.cfs_quota_us", strconv.Itoa(unlimited)})
	}
	return append(files, file{"cpu.cfs_period_us", strconv.FormatUint(*c.Period, 10)},
		file{"cpu.cfs_quota_us", strconv.FormatInt(*c.Quota, 10)})
}

func cpuV2(c *specs.LinuxCPU) []file {
	quota := "max"
	if c.Quota != nil {
		quota = strconv.FormatInt(*c.Quota, 10) + " " + strconv.FormatUint(*c.Period, 10)
	}
	return []file{{"cpu.weight", strconv.FormatInt(weight(int64(*c.Shares)), 10)}, {"cpu.max", quota}}
}

// memoryV1 sets the limit of memory, and that of memory and swap together where the host has one and m says so: the second
// must never be below the first.
func memoryV1(dir string, m *specs.LinuxMemory) []file {
	limit, swap := int64(unlimited), m == nil
	if m != nil && m.Limit != nil {
		limit, swap = *m.Limit, m.Swap != nil
	}
	value := strconv.FormatInt(limit, 10)
	files := []file{{"memory.limit_in_bytes", value}}
	if _, err := os.Stat(filepath.Join(dir, "memory.memsw.limit_in_bytes")); err == nil && swap {
		files = append(files, file{"memory.memsw.limit_in_bytes", value})
		if was := number(dir, "memory.limit_in_bytes"); was != unlimited && (limit == unlimited || limit > was) {
			slices.Reverse(files)
		}
	}
	return files
}

func memoryV2(dir string, m *specs.LinuxMemory) []file {
	if m == nil || m.Limit == nil {
		return []file{{"memory.max", "max"}}
	}
	files := []file{{"memory.max", strconv.FormatInt(*m.Limit, 10)}}
	if _, err := os.Stat(filepath.Join(dir, "memory.swap.max")); err == nil && m.Swap != nil {
		files = append(files, file{"memory.swap.max", strconv.FormatInt(*m.Swap-*m.Limit, 10)})
	}
	return files
}

// bounds are what a group uses of its memory, and what it may use.
type bounds struct {
	// memory is in bytes, caches included.
	memory int64
	// memoryLimit is in bytes, and quota in microseconds of each tenth of a second; unlimited where nothing is limited.
	memoryLimit, quota int64
}

// bounds reads what a group may use. What cannot be read is 0, or not limited.
func (h Hierarchies) bounds(group string) bounds {
	b := bounds{memoryLimit: unlimited, quota: unlimited}
	if one, ok := h.of("memory"); ok {
		usage, limit := "memory.usage_in_bytes", "memory.limit_in_bytes"
		if one.v2 {
			usage, limit = "memory.current", "memory.max"
		}
		b.memory = max(number(one.dir(group), usage), 0)
		b.memoryLimit = number(one.dir(group), limit)
	}
	if one, ok := h.of("cpu"); ok {
		quota := "cpu.cfs_quota_us"
		if one.v2 {
			quota = "cpu.max"
		}
		b.quota = number(one.dir(group), quota)
	}
	return b
}

// noMemoryLimit is how v1 shows that memory is not limited: the largest number of whole pages, which are of several sizes.
const noMemoryLimit = 1 << 62

// number reads the first number of a group's file; unlimited if there is none.
func number(dir, name string) int64 {
	content, _ := os.ReadFile(filepath.Join(dir, name))
	first, _, _ := strings.Cut(strings.TrimSpace(string(content)), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil || n >= noMemoryLimit {
		return unlimited
	}
	return n
}
