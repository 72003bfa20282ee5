package lock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobd/jobd/internal/layout"
)

func TestAStateDirectoryWithContainersServesItsOwnRoot(t *testing.T) {
	state := layout.State(t.TempDir())
	if err := Claim(state, "/a"); err != nil {
		t.Fatal(err)
	}
	if err := Claim(state, "/b"); err != nil {
		t.Errorf("nothing is held: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(state.Shards(), "0", "containers", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Claim(state, "/b"); err != nil {
		t.Errorf("its own root: %v", err)
	}
	if err := Claim(state, "/a"); err == nil || !strings.Contains(err.Error(), "jobd clean --root /b --state "+string(state)) {
		t.Errorf("another root: got %v, want what to do", err)
	}
}
