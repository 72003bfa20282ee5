// Package lock decides who may work on a root and a state directory: one process at a time and, while a state directory
// holds containers, only a process with their root.
//
// Paths come in, locks and errors go out that say who is in the way and what to do. It touches the lock files and the
// file that names the root of a state directory.
package lock

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/jobd/jobd/internal/filelock"
	"github.com/jobd/jobd/internal/layout"
)

// InUseError reports that another process holds a root or state directory.
type InUseError struct {
	Dir string
	PID string // "unknown" if it cannot be found out
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s is in use by another jobd (pid %s): stop that one, or choose another --root and --state",
		e.Dir, e.PID)
}

// Root locks a root, so that no other process works on it.
func Root(root layout.Root) (*filelock.Lock, error) { return take(root.Lock()) }

// State locks a state directory. This keeps daemons of different roots apart: the second one would take the containers
// of the first for leftovers of an earlier run, and end them.
func State(state layout.State) (*filelock.Lock, error) { return take(state.Lock()) }

func take(path string) (*filelock.Lock, error) {
	l, err := filelock.Take(path)
	if held := (*filelock.HeldError)(nil); errors.As(err, &held) {
		inUse := &InUseError{Dir: filepath.Dir(path), PID: "unknown"}
		if held.PID != 0 {
			inUse.PID = strconv.Itoa(held.PID)
		}
		return nil, inUse
	}
	return l, err
}
