package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// setting is one limit: a controller, and the names and the values of its files in the two versions of control groups.
type setting struct {
	controller string
	v1, v2     []file
}

type file struct{ name, value string }

// settings returns what limits a group. What is not limited is left as the kernel has it, without a limit.
func settings(r *specs.LinuxResources) []setting {
	var out []setting
	add := func(controller string, v1, v2 []file) { out = append(out, setting{controller, v1, v2}) }
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if c := r.CPU; c != nil && c.Shares != nil {
		shares := int64(*c.Shares)
		v1 := []file{{"cpu.shares", number(shares)}}
		v2 := []file{{"cpu.weight", number(weight(shares))}}
		if c.Quota != nil {
			period := strconv.FormatUint(*c.Period, 10)
			v1 = append(v1, file{"cpu.cfs_period_us", period}, file{"cpu.cfs_quota_us", number(*c.Quota)})
			v2 = append(v2, file{"cpu.max", number(*c.Quota) + " " + period})
		}
		add("cpu", v1, v2)
	}
	if r.Memory != nil && r.Memory.Reservation != nil {
		// The soft limit of v1 is no equivalent: it says which group gives memory back first, not which keeps its own.
		add("memory", nil, []file{{"memory.low", number(*r.Memory.Reservation)}})
	}
	if r.Memory != nil && r.Memory.Limit != nil {
		bytes := number(*r.Memory.Limit)
		add("memory", []file{{"memory.limit_in_bytes", bytes}}, []file{{"memory.max", bytes}})
	}
	if r.Pids != nil && r.Pids.Limit != nil {
		pids := []file{{"pids.max", number(*r.Pids.Limit)}}
		add("pids", pids, pids)
	}
	for _, h := range r.HugepageLimits {
		// The limit of what is reserved lets mmap fail, that of what is used the later use of the memory.
		bytes, pages := strconv.FormatUint(h.Limit, 10), "hugetlb."+h.Pagesize
		add("hugetlb", []file{{pages + ".limit_in_bytes", bytes}, {pages + ".rsvd.limit_in_bytes", bytes}},
			[]file{{pages + ".max", bytes}, {pages + ".rsvd.max", bytes}})
	}
	return out
}

// weight converts the shares of v1 to the weight of v2: from 2..262144 to 1..10000, as the OCI runtimes do it.
func weight(shares int64) int64 { return 1 + (shares-2)*9999/262142 }

// Limit makes a group in the hierarchies that enforce its limits, and sets them.
func (h Hierarchies) Limit(group string, limits *specs.LinuxResources) error {
	for _, s := range settings(limits) {
		if err := h.set(group, s); err != nil {
			return err
		}
	}
	return nil
}

// set makes a group in the hierarchy that has the controller, and sets the limit there.
func (h Hierarchies) set(group string, s setting) error {
	for _, one := range h.all {
		files := s.v1
		switch {
		case one.v2:
			if enabled, err := enable(one.mount, group, s.controller); err != nil {
				return err
			} else if !enabled {
				continue
			}
			files = s.v2
		case !slices.Contains(one.options, s.controller):
			continue
		}
		dir := one.dir(group)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.value), 0); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("this host has no cgroup controller %s", s.controller)
}

// enable makes a v2 group and the groups on the way down to it, and hands a controller down to it. It reports whether
// the hierarchy has the controller.
func enable(mount, group, controller string) (bool, error) {
	dir := mount
	for name := range strings.SplitSeq(strings.TrimPrefix(group, "/"), "/") {
		have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return false, err
		}
		if !slices.Contains(strings.Fields(string(have)), controller) {
			return false, nil
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
			return false, err
		}
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
	}
	return true, nil
}
