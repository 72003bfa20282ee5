package containerd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// DefaultRoot is the daemon's root when none is given.
const DefaultRoot = "/var/lib/jobd"

// CgroupParent is where the cgroups of a root's containers are: two daemons on a host do not meet.
func CgroupParent(root string) string {
	root = filepath.Clean(root)
	if root == DefaultRoot {
		return "/jobd"
	}
	sum := sha256.Sum256([]byte(root))
	return "/jobd-" + hex.EncodeToString(sum[:4])
}

// cgroupMounts are the hierarchies of this host.
func cgroupMounts() ([]string, error) {
	infos, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	var out []string
	for _, i := range infos {
		out = append(out, i.Mountpoint)
	}
	return out, nil
}

// childCgroups names the cgroups right below one, in any hierarchy.
func childCgroups(cgroup string) ([]string, error) {
	mounts, err := cgroupMounts()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var names []string
	for _, m := range mounts {
		entries, err := os.ReadDir(filepath.Join(m, cgroup))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && !seen[e.Name()] {
				seen[e.Name()] = true
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}

// processes are those in a cgroup or below it, in any hierarchy.
func processes(cgroup string) ([]int, error) {
	mounts, err := cgroupMounts()
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	var pids []int
	for _, m := range mounts {
		err := filepath.WalkDir(filepath.Join(m, cgroup), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			} else if err != nil || !d.IsDir() {
				return err
			}
			content, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			if err != nil {
				return nil // gone meanwhile
			}
			for field := range strings.FieldsSeq(string(content)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 0 && !seen[pid] {
					seen[pid] = true
					pids = append(pids, pid)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return pids, nil
}

// removeCgroup kills all that runs in a cgroup and below, and removes it from every hierarchy.
func removeCgroup(cgroup string) error {
	mounts, err := cgroupMounts()
	if err != nil {
		return err
	}
	for wait := time.Millisecond; ; wait *= 2 {
		pids, err := processes(cgroup)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			break
		}
		if wait > 4*time.Second {
			return fmt.Errorf("cgroup %s: %d processes do not end", cgroup, len(pids))
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("cgroup %s: kill %d: %w", cgroup, pid, err)
			}
		}
		time.Sleep(wait)
	}
	var errs []error
	for _, m := range mounts {
		errs = append(errs, removeTree(filepath.Join(m, cgroup)))
	}
	return errors.Join(errs...)
}

// removeTree removes a cgroup from its leaves up. A process that has just ended keeps its cgroup busy for a moment.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for wait := time.Millisecond; ; wait *= 2 {
		err := unix.Rmdir(dir)
		switch {
		case err == nil || errors.Is(err, unix.ENOENT):
			return nil
		case !errors.Is(err, unix.EBUSY) || wait > time.Second:
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
		time.Sleep(wait)
	}
}
