package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/jobd/jobd/internal/mountlist"
)

// Hierarchies are the places where this host has its control groups mounted: a single one with cgroup v2, one for each
// set of controllers with v1, and both kinds on a hybrid host. It is a value that never changes, for any goroutine.
type Hierarchies struct {
	all []hierarchy
	// main speaks for all where it matters which processes a container has: an OCI runtime puts each into every
	// hierarchy. It is the one that accounts memory, if there is one.
	main hierarchy
	// accounted reports whether main accounts memory.
	accounted bool
	extra     string
}

type hierarchy struct {
	mount string
	v2    bool
	// options of the mount name the controllers of a v1 hierarchy. Each v2 group has a file for that.
	options []string
}

func (h hierarchy) dir(group string) string { return filepath.Join(h.mount, group) }

// Find reads from this process's mount table where the hierarchies are.
func Find() (Hierarchies, error) {
	mounts, err := mountlist.Get(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return Hierarchies{}, fmt.Errorf("find control groups: %w", err)
	}
	return sortOut(mounts), nil
}

func sortOut(mounts []*mountinfo.Info) Hierarchies {
	var h Hierarchies
	v1, v2 := -1, -1
	for _, m := range mounts {
		known := slices.ContainsFunc(h.all, func(other hierarchy) bool { return other.mount == m.Mountpoint })
		if known || m.FSType == "cgroup2" && v2 >= 0 { // a v2 hierarchy is the same one wherever it is mounted
			continue
		}
		one := hierarchy{mount: m.Mountpoint, v2: m.FSType == "cgroup2"}
		switch {
		case one.v2:
			v2 = len(h.all)
		default:
			one.options = strings.Split(m.VFSOptions, ",")
			memory := slices.Contains(one.options, "memory")
			if v1 < 0 || memory {
				v1 = len(h.all)
			}
			h.accounted = h.accounted || memory
		}
		h.all = append(h.all, one)
	}
	switch {
	case v1 >= 0:
		h.main = h.all[v1]
		if v2 >= 0 {
			h.extra = h.all[v2].mount
		}
	case v2 >= 0:
		h.main, h.accounted = h.all[v2], true
	}
	return h
}

// Extra returns where a hybrid host has its v2 hierarchy, "" on any other host. No containers are in it: crun 1.8
// refuses to work where it sees one beside those of v1.
func (h Hierarchies) Extra() string { return h.extra }

// Children returns the names of the groups right below one, in whichever hierarchy they are.
func (h Hierarchies) Children(group string) ([]string, error) {
	var names []string
	for _, one := range h.all {
		entries, err := os.ReadDir(one.dir(group))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list control groups: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}
