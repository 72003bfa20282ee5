package filelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func hold(t *testing.T, path string) *Lock {
	t.Helper()
	l, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func release(t *testing.T, l *Lock) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// deadPID returns the id of a process that has ended.
func deadPID(t *testing.T) int {
	t.Helper()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Skip("needs the program true")
	}
	return gone.Process.Pid
}

func TestOneHolderAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := hold(t, path)
	for range 2 {
		_, err := Take(path)
		var other *HeldError
		if !errors.As(err, &other) || other.Path != path || other.PID != os.Getpid() {
			t.Fatalf("the second: got %v, want an error that names %s and pid %d", err, path, os.Getpid())
		}
		if want := fmt.Sprintf("%s is held by process %d", path, os.Getpid()); err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	release(t, held)
	release(t, hold(t, path))
}

// A process that is killed while it starts a program leaves its lock to that program for a moment.
func TestTheLockOfADeadHolderIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := hold(t, path)
	if _, err := held.file.WriteAt(fmt.Appendln(nil, deadPID(t)), 0); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "0.3")
	child.ExtraFiles = []*os.File{held.file}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }()
	if err := held.file.Close(); err != nil { // as it is closed when its process is killed
		t.Fatal(err)
	}
	release(t, hold(t, path))
}

// A child that is being started does not keep a lock that was released.
func TestAReleasedLockIsFreeWhateverAChildHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := hold(t, path)
	child := exec.Command("cat")
	child.ExtraFiles = []*os.File{held.file}
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = stdin.Close(), child.Wait() }()
	release(t, held)
	release(t, hold(t, path))
}

// The file of a process that was killed still has its id.
func TestThePIDOfADeadHolderIsNotNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := hold(t, path)
	for what, content := range map[string]string{"dead": fmt.Sprintln(deadPID(t)), "not written yet": ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		var other *HeldError
		if _, err := take(path, 0); !errors.As(err, &other) || other.PID != 0 {
			t.Errorf("%s: got %v", what, err)
		}
	}
	release(t, held)
	release(t, hold(t, path))
}

func TestADirectoryThatIsMissingIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "lock")
	if _, err := Take(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}
