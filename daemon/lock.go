package daemon

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/jobd/jobd/filelock"
	"github.com/jobd/jobd/runtime/containerd"
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
func lockRoot(root string) (*filelock.Lock, error) { return lockDir(root, "lock") }

// lockState keeps daemons of different roots apart: the one that comes second would take the other's containers for
// what an earlier run has left, and end them. The name is another one than the root's, since both may be one directory.
func lockState(state string) (*filelock.Lock, error) { return lockDir(state, containerd.StateLock) }

func lockDir(dir, name string) (*filelock.Lock, error) {
	l, err := filelock.Take(filepath.Join(dir, name))
	if held := (*filelock.HeldError)(nil); errors.As(err, &held) {
		inUse := &InUseError{Dir: dir, PID: "unknown"}
		if held.PID != 0 {
			inUse.PID = strconv.Itoa(held.PID)
		}
		return nil, inUse
	}
	return l, err
}
