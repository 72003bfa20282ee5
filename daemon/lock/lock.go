// Package lock says who may work on a root and a state directory: one process at a time, and in a state directory with
// containers none but those of its own root.
package lock

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/jobd/jobd/filelock"
	"github.com/jobd/jobd/layout"
)

// InUseError says that another process holds a root or state directory.
type InUseError struct {
	Dir string
	PID string // "unknown" when it could not be found out
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s is in use by another jobd (pid %s): stop that one, or choose another --root and --state", e.Dir, e.PID)
}

// Root makes this process the only one that works on a root.
func Root(root layout.Root) (*filelock.Lock, error) { return take(root.Lock()) }

// State keeps daemons of different roots apart: the one that comes second would take the other's containers for
// what an earlier run has left, and end them.
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
