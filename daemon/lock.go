package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jobd/jobd/runtime/containerd"
)

// InUseError says that another process holds a root or state directory.
type InUseError struct {
	Dir string
	PID string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s is in use by another jobd (pid %s): stop that one, or choose another --root and --state", e.Dir, e.PID)
}

// lock makes this process the only one that works on a directory. The kernel lets go of it when the process ends,
// however it ends.
type lock struct{ file *os.File }

func lockRoot(root string) (*lock, error) { return lockFile(filepath.Join(root, "lock")) }

// lockState keeps daemons of different roots apart: the one that comes second would take the other's containers for
// what an earlier run has left, and end them. The name is another one than the root's, since both may be one directory.
func lockState(state string) (*lock, error) {
	return lockFile(filepath.Join(state, containerd.StateLock))
}

// foreign fails when a state directory holds containers of another root, whose daemon need not run.
func foreign(state, root string) error {
	owner, err := os.ReadFile(filepath.Join(state, containerd.StateRoot))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	if len(owner) == 0 || string(owner) == root {
		return nil
	}
	held, err := filepath.Glob(filepath.Join(state, "shards", "*", "containers", "*"))
	if err != nil || len(held) == 0 {
		return err
	}
	return fmt.Errorf("%s holds %d containers of the root %s: choose another --state, or end them with: jobd clean --root %[3]s --state %[1]s",
		state, len(held), owner)
}

// claim makes a state directory that of a root.
func claim(state, root string) error {
	if err := foreign(state, root); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(state, containerd.StateRoot), []byte(root), 0o600); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

func lockFile(path string) (*lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	take := func() error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	err = take()
	for end := time.Now().Add(heldByChild); errors.Is(err, syscall.EWOULDBLOCK) && dead(holder(file)) && time.Now().Before(end); err = take() {
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil {
		defer file.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return nil, &InUseError{Dir: filepath.Dir(path), PID: cmp.Or(holder(file), "unknown")}
	}
	if err := file.Truncate(0); err == nil {
		_, err = file.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	return &lock{file}, nil
}

// heldByChild is how long a lock may outlive its process: one that was killed just when it started another leaves a copy of
// its descriptors until that one has become the program which it is to be.
const heldByChild = 10 * time.Second

// holder is the pid that a lock's file names, empty where there is none.
func holder(file *os.File) string {
	pid, _ := io.ReadAll(io.NewSectionReader(file, 0, 20))
	return strings.TrimSpace(string(pid))
}

// dead tells whether there is no such process, or nothing of it but its exit code.
func dead(pid string) bool {
	if pid == "" {
		return false
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	_, state, _ := strings.Cut(string(stat), ") ") // the name before it is jobd's
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

func (l *lock) release() { l.file.Close() }
