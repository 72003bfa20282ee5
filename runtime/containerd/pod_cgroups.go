package containerd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"github.com/opencontainers/runtime-spec/specs-go"
)

const podPrefix = "pod-"

// PodCgroups holds the cgroups of pods that have limits of their own. The cgroups of their containers are in them.
type PodCgroups struct {
	parent      string
	hierarchies []*mountinfo.Info
}

// NewPodCgroups has them in CgroupParent(Root).
func NewPodCgroups(parent string) (*PodCgroups, error) {
	hierarchies, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	return &PodCgroups{parent, hierarchies}, nil
}

// SetUp makes the cgroup of a pod or finds it, and gives its path below the roots of the hierarchies.
func (p *PodCgroups) SetUp(uid string, limits *specs.LinuxResources) (string, error) {
	cgroup := p.path(uid)
	for _, s := range settings(limits) {
		if err := s.write(p.hierarchies, cgroup); err != nil {
			return "", fmt.Errorf("cgroup of pod %s: %w", uid, err)
		}
	}
	return cgroup, nil
}

// TearDown removes the cgroup of a pod, if it has one, with all that runs in it.
func (p *PodCgroups) TearDown(uid string) error {
	for _, h := range p.hierarchies {
		if _, err := os.Lstat(filepath.Join(h.Mountpoint, p.path(uid))); err == nil {
			return removeCgroup(p.path(uid))
		}
	}
	return nil
}

// Held lists the pods that have one.
func (p *PodCgroups) Held() (uids []string, err error) {
	names, err := childCgroups(p.parent)
	for _, name := range names {
		if uid, ok := strings.CutPrefix(name, podPrefix); ok {
			uids = append(uids, uid)
		}
	}
	return uids, err
}

func (p *PodCgroups) path(uid string) string { return p.parent + "/" + podPrefix + uid }

// setting is one limit: a controller, and the names and the values of its files in the two versions of cgroups.
type setting struct {
	controller string
	v1, v2     []cgroupFile
}

type cgroupFile struct{ name, value string }

// settings are the limits of a pod. Where it has none the kernel's stand, which are none either.
func settings(r *specs.LinuxResources) []setting {
	var out []setting
	add := func(controller string, v1, v2 []cgroupFile) { out = append(out, setting{controller, v1, v2}) }
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if c := r.CPU; c != nil && c.Shares != nil {
		shares := int64(*c.Shares)
		v1 := []cgroupFile{{"cpu.shares", number(shares)}}
		// From 2..262144 to 1..10000, as the OCI runtimes do it.
		v2 := []cgroupFile{{"cpu.weight", number(1 + (shares-2)*9999/262142)}}
		if c.Quota != nil {
			period := strconv.FormatUint(*c.Period, 10)
			v1 = append(v1, cgroupFile{"cpu.cfs_period_us", period}, cgroupFile{"cpu.cfs_quota_us", number(*c.Quota)})
			v2 = append(v2, cgroupFile{"cpu.max", number(*c.Quota) + " " + period})
		}
		add("cpu", v1, v2)
	}
	if r.Memory != nil && r.Memory.Limit != nil {
		bytes := number(*r.Memory.Limit)
		add("memory", []cgroupFile{{"memory.limit_in_bytes", bytes}}, []cgroupFile{{"memory.max", bytes}})
	}
	if r.Pids != nil && r.Pids.Limit != nil {
		pids := []cgroupFile{{"pids.max", number(*r.Pids.Limit)}}
		add("pids", pids, pids)
	}
	for _, h := range r.HugepageLimits {
		// What is used, and what is reserved: mmap fails then, and not the use of what it gave.
		bytes, pages := strconv.FormatUint(h.Limit, 10), "hugetlb."+h.Pagesize
		add("hugetlb", []cgroupFile{{pages + ".limit_in_bytes", bytes}, {pages + ".rsvd.limit_in_bytes", bytes}},
			[]cgroupFile{{pages + ".max", bytes}, {pages + ".rsvd.max", bytes}})
	}
	return out
}

// write makes the cgroup in the hierarchy that has the controller, and sets the limit.
func (s setting) write(hierarchies []*mountinfo.Info, cgroup string) error {
	for _, h := range hierarchies {
		files := s.v1
		switch {
		case h.FSType == "cgroup2":
			if enabled, err := enable(h.Mountpoint, cgroup, s.controller); err != nil {
				return err
			} else if !enabled {
				continue
			}
			files = s.v2
		case !slices.Contains(strings.Split(h.VFSOptions, ","), s.controller):
			continue
		}
		dir := filepath.Join(h.Mountpoint, cgroup)
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

// enable gives a controller to all cgroups on the way down to one, which it makes. It tells whether the hierarchy has it.
func enable(mount, cgroup, controller string) (bool, error) {
	dir := mount
	for name := range strings.SplitSeq(strings.TrimPrefix(cgroup, "/"), "/") {
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
