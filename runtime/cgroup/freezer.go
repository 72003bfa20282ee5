package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
)

// freezeTime is about how long Freeze waits for the processes of a group: one that is in the middle of a system call that cannot
// be interrupted stops only after it.
const freezeTime = 2 * time.Second

// freezer returns where the freezer of a group is, in the hierarchy in which containers are, and whether that is the one of v2.
func (h Hierarchies) freezer(group string) (dir string, v2, ok bool) {
	for _, one := range h.all {
		if !one.v2 && slices.Contains(one.options, "freezer") {
			return one.dir(group), false, true
		}
	}
	return h.main.dir(group), true, h.main.v2
}

// Freeze stops all processes of a group, or lets them go on. They do not notice it, but for the time. It returns once all of them
// have stopped; if that takes too long the error is errdefs.ErrUnavailable, and those that have stopped stay so. A group that is
// gone is errdefs.ErrNotFound, and a host without a freezer errdefs.ErrNotImplemented.
func (h Hierarchies) Freeze(group string, freeze bool) error {
	dir, v2, ok := h.freezer(group)
	if !ok {
		return fmt.Errorf("the control groups of this host have no freezer: %w", errdefs.ErrNotImplemented)
	}
	wanted := freezing(v2, freeze)
	for wait := time.Millisecond; ; wait *= 2 {
		// With v1 it may take several attempts, since a process that is being forked escapes one.
		if err := os.WriteFile(filepath.Join(dir, wanted.name), []byte(wanted.value), 0); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("control group %s: %w", group, errdefs.ErrNotFound)
		} else if err != nil {
			return fmt.Errorf("control group %s: %w", group, err)
		}
		if frozen, settled := readFreezer(dir, v2); settled && frozen == freeze {
			return nil
		}
		if wait > freezeTime {
			return fmt.Errorf("control group %s: not all of its processes stop: %w", group, errdefs.ErrUnavailable)
		}
		time.Sleep(wait)
	}
}

// Frozen reports whether the processes of a group were stopped, or are being stopped.
func (h Hierarchies) Frozen(group string) bool {
	dir, v2, ok := h.freezer(group)
	if !ok {
		return false
	}
	frozen, settled := readFreezer(dir, v2)
	return frozen || !settled
}

// freezing returns what is to be written to stop the processes of a group, or to let them go on.
func freezing(v2, freeze bool) file {
	switch {
	case v2 && freeze:
		return file{"cgroup.freeze", "1"}
	case v2:
		return file{"cgroup.freeze", "0"}
	case freeze:
		return file{"freezer.state", "FROZEN"}
	}
	return file{"freezer.state", "THAWED"}
}

// readFreezer returns whether a group is frozen; settled is false while its processes are being stopped. A group that is gone is
// not frozen.
func readFreezer(dir string, v2 bool) (frozen, settled bool) {
	if !v2 {
		state, _ := os.ReadFile(filepath.Join(dir, "freezer.state"))
		switch strings.TrimSpace(string(state)) {
		case "FROZEN":
			return true, true
		case "FREEZING":
			return false, false
		}
		return false, true
	}
	events, _ := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	frozen = slices.Contains(strings.Split(string(events), "\n"), "frozen 1")
	return frozen, frozen == (number(dir, "cgroup.freeze") == 1)
}

// Release lets what was frozen in a group and below go on after it was killed: with v1, a process that is frozen does not end.
func (h Hierarchies) Release(group string) {
	if dir, v2, ok := h.freezer(group); ok && !v2 {
		releaseBelow(dir)
	}
}

func releaseBelow(dir string) {
	if frozen, settled := readFreezer(dir, false); frozen || !settled {
		thaw := freezing(false, false)
		_ = os.WriteFile(filepath.Join(dir, thaw.name), []byte(thaw.value), 0) // who kills looks whether it has ended, and tries again
	}
	for _, child := range children(dir) {
		releaseBelow(child)
	}
}
