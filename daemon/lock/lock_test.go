package lock

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/jobd/jobd/internal/layout"
)

func TestAStateDirectoryIsHeldByOneDaemon(t *testing.T) {
	dir := t.TempDir()
	root, err := Root(layout.Root(dir)) // the two may be one directory
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	held, err := State(layout.State(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	var inUse *InUseError
	if _, err := State(layout.State(dir)); !errors.As(err, &inUse) {
		t.Errorf("the second lock: got %v, want an error", err)
	}
}

func TestARootIsHeldByOneDaemon(t *testing.T) {
	root := layout.Root(t.TempDir())
	held, err := Root(root)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Root(root)
	var inUse *InUseError
	if !errors.As(err, &inUse) || inUse.PID != strconv.Itoa(os.Getpid()) {
		t.Fatalf("the second lock: got %v, want an error that names pid %d", err, os.Getpid())
	}
	held.Close()
	again, err := Root(root)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	again.Close()
}
