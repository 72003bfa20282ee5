package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Describe says which kind of control groups the host has, "" if none are mounted.
func (h Hierarchies) Describe() string {
	v1 := slices.ContainsFunc(h.all, func(one hierarchy) bool { return !one.v2 })
	v2 := slices.ContainsFunc(h.all, func(one hierarchy) bool { return one.v2 })
	switch {
	case v1 && v2:
		return "hybrid (v1, and a v2 hierarchy beside it)"
	case v1:
		return "v1"
	case v2:
		return "v2"
	}
	return ""
}

// Has reports whether containers can be limited by a controller: memory, cpu, pids and so on.
func (h Hierarchies) Has(controller string) bool {
	return slices.ContainsFunc(h.all, func(one hierarchy) bool {
		if !one.v2 {
			return slices.Contains(one.options, controller)
		}
		controllers, _ := os.ReadFile(filepath.Join(one.mount, "cgroup.controllers"))
		return slices.Contains(strings.Fields(string(controllers)), controller)
	})
}

// ReadOnly reports whether no group can be made, because the hierarchy is mounted read-only.
func (h Hierarchies) ReadOnly() bool {
	var s unix.Statfs_t
	return h.main.mount != "" && unix.Statfs(h.main.mount, &s) == nil && s.Flags&unix.ST_RDONLY != 0
}
