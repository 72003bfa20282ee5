package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
)

// Enter moves a process into a group, which it makes, in every hierarchy except that of cpuset: there the group would
// first have to be given processors, and it does not decide who is killed.
func Enter(group string, pid int) error {
	h, err := Find()
	if err != nil {
		return err
	}
	var errs []error
	for _, one := range h.all {
		if slices.Contains(one.options, "cpuset") {
			continue
		}
		dir := one.dir(group)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0))
	}
	return errors.Join(errs...)
}

// Processes returns what runs in the group of a container and below. A group that does not exist has none.
func (h Hierarchies) Processes(group string) []int {
	if h.main.mount == "" {
		return nil
	}
	return processesBelow(h.main.dir(group))
}

func processesBelow(dir string) []int {
	content, err := files.Read(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil // the group is gone, so nothing is in it
	}
	var pids []int
	for line := range strings.Lines(string(content)) {
		// 0 stands for a process that this PID namespace does not see.
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
	// A group has two links and one more for each child: most have none and need not be read.
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

// Signal sends a signal to each process of a container and returns how many it reached.
func (h Hierarchies) Signal(group string, sig unix.Signal) (sent int) {
	if h.main.mount == "" {
		return 0
	}
	sent = signalBelow(h.main.dir(group), sig)
	if sent > 0 && sig == unix.SIGKILL {
		h.Release(group)
	}
	return sent
}

// signalBelow reaches no process that has only inherited a number: the number is bound to a process first, and then the
// group is read again to see whether that process belongs there.
func signalBelow(dir string, sig unix.Signal) (sent int) {
	pids := processesBelow(dir)
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
	for _, pid := range processesBelow(dir) {
		if fd, ok := handles[pid]; ok && unix.PidfdSendSignal(fd, sig, nil, 0) == nil {
			sent++
		}
	}
	return sent
}

// Kill ends every process of a container, including those that are forked meanwhile.
func (h Hierarchies) Kill(group string) {
	for wait := time.Millisecond; wait < time.Second; wait *= 2 {
		if h.Signal(group, unix.SIGKILL) == 0 {
			return
		}
		time.Sleep(wait)
	}
}

// OOMKills returns how many processes of a container the kernel has killed for want of memory.
func (h Hierarchies) OOMKills(group string) int {
	if !h.accounted {
		return 0
	}
	file := "memory.oom_control"
	if h.main.v2 {
		file = "memory.events"
	}
	content, err := files.Read(filepath.Join(h.main.dir(group), file))
	if err != nil {
		return 0 // the OCI runtime did not make the group: nothing was limited
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
