package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killTime is about how long RemoveAll waits for processes that it has killed, twice as long in total.
	killTime = 4 * time.Second
	// busyTime is the same for a group that stays busy for a moment after its last process has ended.
	busyTime = time.Second
	// pruneTime is the same where nobody needs the group to go.
	pruneTime = 64 * time.Millisecond
)

// RemoveAll kills everything that runs in a group and below, and then removes the group from every hierarchy. In
// none is it removed while a process is left there that could start others. A group that is not there is no error.
func (h Hierarchies) RemoveAll(group string) error {
	if h.removeEmpty(group) {
		return nil
	}
	for wait := time.Millisecond; ; wait *= 2 {
		left := 0
		for _, one := range h.all {
			if n := len(processesBelow(one.dir(group))); n > 0 {
				left = max(left, n)
				signalBelow(one.dir(group), unix.SIGKILL)
			}
		}
		if left == 0 {
			return h.Remove(group)
		}
		h.Release(group)
		if wait > killTime {
			return fmt.Errorf("control group %s: %d processes do not end", group, left)
		}
		time.Sleep(wait)
	}
}

// removeEmpty removes a group from the hierarchies in which it is empty, and reports whether it is in none after that. The
// kernel does not remove one in which there is anything, so nothing has to be read.
func (h Hierarchies) removeEmpty(group string) bool {
	gone := true
	for _, one := range h.all {
		if err := unix.Rmdir(one.dir(group)); err != nil && err != unix.ENOENT {
			gone = false
		}
	}
	return gone
}

// Remove removes a group whose processes have ended, and what is below it, from every hierarchy. What still runs in it
// is killed. A group that is not there is no error.
func (h Hierarchies) Remove(group string) error {
	var errs []error
	for _, one := range h.all {
		dir := one.dir(group)
		err := removeTree(dir)
		for wait := time.Millisecond; errors.Is(err, unix.EBUSY) && wait <= busyTime; wait *= 2 {
			signalBelow(dir, unix.SIGKILL)
			h.Release(group)
			time.Sleep(wait) // what was killed is not gone at once
			err = removeTree(dir)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Prune removes a group in which nothing runs and below which there is nothing from every hierarchy, and leaves any
// other one as it is.
func (h Hierarchies) Prune(group string) error {
	var errs []error
	for _, one := range h.all {
		dir := one.dir(group)
		err := unix.Rmdir(dir)
		// One whose last process has just ended may stay busy for a moment.
		for wait := time.Millisecond; err == unix.EBUSY && wait <= pruneTime && empty(dir); wait *= 2 {
			time.Sleep(wait)
			err = unix.Rmdir(dir)
		}
		if err != nil && err != unix.ENOENT && err != unix.EBUSY {
			errs = append(errs, fmt.Errorf("remove control group: %w", &fs.PathError{Op: "rmdir", Path: dir, Err: err}))
		}
	}
	return errors.Join(errs...)
}

func empty(dir string) bool { return len(processesBelow(dir)) == 0 && len(children(dir)) == 0 }

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
