package shard

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchies is where this host has its cgroups mounted: one place with cgroup v2, one for each set of controllers with v1,
// both on a hybrid host.
type hierarchies struct {
	all    []string // mount points
	memory string   // the one that accounts memory, "" if there is none
	v2     bool     // memory is in a v2 hierarchy
	// extra is a v2 hierarchy beside v1 ones. crun 1.8 refuses to work where it sees one.
	extra string
}

func findHierarchies() (hierarchies, error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return hierarchies{}, fmt.Errorf("find cgroups: %w", err)
	}
	defer f.Close()
	h, err := parseHierarchies(f)
	if err != nil {
		return h, fmt.Errorf("find cgroups: %w", err)
	}
	return h, nil
}

// parseHierarchies reads a mount table.
func parseHierarchies(mounts io.Reader) (hierarchies, error) {
	var h hierarchies
	unified := ""
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || slices.Contains(h.all, fields[1]) {
			continue
		}
		switch fields[2] {
		case "cgroup2":
			unified = fields[1]
		case "cgroup":
			h.all = append(h.all, fields[1])
			if slices.Contains(strings.Split(fields[3], ","), "memory") {
				h.memory = fields[1]
			}
		}
	}
	switch {
	case unified == "":
	case len(h.all) == 0:
		h = hierarchies{all: []string{unified}, memory: unified, v2: true}
	default:
		h.extra = unified
	}
	return h, lines.Err()
}

// processes lists what runs in a container's cgroup and below. The first hierarchy speaks for all: the runtime puts a
// process into every one.
func (h hierarchies) processes(cgroup string) []int {
	if len(h.all) == 0 {
		return nil
	}
	mount := h.all[0]
	if h.memory != "" {
		mount = h.memory
	}
	return processesBelow(filepath.Join(mount, cgroup))
}

func processesBelow(dir string) []int {
	content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil // gone, so nobody is in it
	}
	var pids []int
	for line := range strings.Lines(string(content)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	for _, child := range children(dir) {
		pids = append(pids, processesBelow(child)...)
	}
	return pids
}

func children(dir string) []string {
	var info unix.Stat_t
	// A cgroup has two links and one more for each child: most have none and need not be read.
	if unix.Stat(dir, &info) == nil && info.Nlink == 2 {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs
}

// signal sends a signal to each process of a cgroup, and to none that has only inherited a number: the number is bound to a
// process first, and that one is asked again whether it belongs here.
func (h hierarchies) signal(cgroup string, sig unix.Signal) (sent int) {
	pids := h.processes(cgroup)
	handles := make(map[int]int, len(pids))
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			handles[pid] = fd
			defer unix.Close(fd)
		}
	}
	if len(handles) == 0 {
		return 0
	}
	for _, pid := range h.processes(cgroup) {
		if fd, ok := handles[pid]; ok && unix.PidfdSendSignal(fd, sig, nil, 0) == nil {
			sent++
		}
	}
	return sent
}

// kill ends everything in a cgroup; processes that fork meanwhile are caught in further rounds.
func (h hierarchies) kill(cgroup string) {
	for wait := time.Millisecond; wait < time.Second; wait *= 2 {
		if h.signal(cgroup, unix.SIGKILL) == 0 {
			return
		}
		time.Sleep(wait)
	}
}

// oomKills counts how often the kernel has killed a process of the cgroup for want of memory.
func (h hierarchies) oomKills(cgroup string) int {
	if h.memory == "" {
		return 0
	}
	file := "memory.oom_control"
	if h.v2 {
		file = "memory.events"
	}
	content, err := os.ReadFile(filepath.Join(h.memory, cgroup, file))
	if err != nil {
		return 0 // the runtime did not make one: nothing was limited
	}
	return parseOOMKills(string(content))
}

func parseOOMKills(events string) int {
	for line := range strings.Lines(events) {
		if value, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// remove takes a container's cgroup out of every hierarchy. What still runs in it is killed.
func (h hierarchies) remove(cgroup string) error {
	var errs []error
	for _, mount := range h.all {
		dir := filepath.Join(mount, cgroup)
		err := removeTree(dir)
		for wait := time.Millisecond; errors.Is(err, unix.EBUSY) && wait < time.Second; wait *= 2 {
			h.signal(cgroup, unix.SIGKILL)
			time.Sleep(wait) // what was killed is not gone at once
			err = removeTree(dir)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
		}
	}
	return errors.Join(errs...)
}

func removeTree(dir string) error {
	err := unix.Rmdir(dir)
	if errors.Is(err, unix.EBUSY) {
		for _, child := range children(dir) {
			if err := removeTree(child); err != nil {
				return err
			}
		}
		err = unix.Rmdir(dir)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
}

// EnterCgroup moves a process into a cgroup, which it makes. Where cpus and memory nodes would have to be given first the
// process stays where it is: that hierarchy does not decide who dies.
func EnterCgroup(cgroup string, pid int) error {
	h, err := findHierarchies()
	if err != nil {
		return err
	}
	mounts := h.all
	if h.extra != "" {
		mounts = append(mounts, h.extra)
	}
	var errs []error
	for _, mount := range mounts {
		if _, err := os.Stat(filepath.Join(mount, "cpuset.cpus")); err == nil && !h.v2 {
			continue
		}
		dir := filepath.Join(mount, cgroup)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0))
	}
	return errors.Join(errs...)
}
