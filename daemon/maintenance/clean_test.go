package maintenance

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/lock"
	"github.com/jobd/jobd/layout"
)

func TestCleanLeavesADirectoryInUseAlone(t *testing.T) {
	dir := t.TempDir()
	held, err := lock.State(layout.State(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	var inUse *lock.InUseError
	c := config.Default()
	c.Root, c.State = t.TempDir(), dir
	if err := Clean(t.Context(), c, Purge); !errors.As(err, &inUse) || inUse.Dir != dir {
		t.Errorf("clean of another root: got %v, want that %s is in use", err, dir)
	}
}

func TestCleanLeavesContainersOfAnotherRootAlone(t *testing.T) {
	state := layout.State(t.TempDir())
	if err := lock.Claim(state, "/b"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(state.Shards(), "0", "containers", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Root, c.State = "/a", string(state)
	if err := Clean(t.Context(), c, nil); err == nil {
		t.Error("clean of another root ends the containers")
	}
}
