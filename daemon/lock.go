package daemon

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

// lockRoot makes this process the only one that works on a root.
func lockRoot(root layout.Root) (*filelock.Lock, error) { return lockFile(root.Lock()) }

// lockState keeps daemons of different roots apart: the one that comes second would take the other's containers for
// what an earlier run has left, and end them.
func lockState(state layout.State) (*filelock.Lock, error) { return lockFile(state.Lock()) }

func lockFile(path string) (*filelock.Lock, error) {
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
