package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestAStateDirectoryIsHeldByOneDaemon(t *testing.T) {
	dir := t.TempDir()
	root, err := lockRoot(dir) // the two may be one directory
	if err != nil {
		t.Fatal(err)
	}
	defer root.release()
	held, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.release()
	var inUse *InUseError
	c := DefaultConfig()
	c.Root, c.State = t.TempDir(), dir
	if err := Clean(t.Context(), c, true); !errors.As(err, &inUse) || inUse.Dir != dir {
		t.Errorf("clean of another root: got %v, want that %s is in use", err, dir)
	}
	if _, err := lockState(dir); !errors.As(err, &inUse) {
		t.Errorf("the second lock: got %v, want an error", err)
	}
}

func TestARootIsHeldByOneDaemon(t *testing.T) {
	root := t.TempDir()
	held, err := lockRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockRoot(root)
	var inUse *InUseError
	if !errors.As(err, &inUse) || inUse.PID != strconv.Itoa(os.Getpid()) {
		t.Fatalf("the second lock: got %v, want an error that names pid %d", err, os.Getpid())
	}
	held.release()
	again, err := lockRoot(root)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	again.release()
}

// A daemon that is killed while it starts a program leaves its lock to that one for a moment.
func TestALockOfADeadDaemonIsWaitedFor(t *testing.T) {
	root := t.TempDir()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	held, err := lockRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.file.WriteAt(fmt.Appendln(nil, gone.Process.Pid), 0); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "0.3")
	child.ExtraFiles = []*os.File{held.file}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }()
	held.release()
	again, err := lockRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	again.release()
}

func TestAStateDirectoryWithContainersServesItsOwnRoot(t *testing.T) {
	state := t.TempDir()
	if err := claim(state, "/a"); err != nil {
		t.Fatal(err)
	}
	if err := claim(state, "/b"); err != nil {
		t.Errorf("nothing is held: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(state, "shards", "0", "containers", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := claim(state, "/b"); err != nil {
		t.Errorf("its own root: %v", err)
	}
	if err := claim(state, "/a"); err == nil || !strings.Contains(err.Error(), "jobd clean --root /b --state "+state) {
		t.Errorf("another root: got %v, want what to do", err)
	}
	c := DefaultConfig()
	c.Root, c.State = "/a", state
	if err := Clean(t.Context(), c, false); err == nil {
		t.Error("clean of another root ends the containers")
	}
}
