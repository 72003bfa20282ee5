package maintenance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobd/jobd/internal/layout"
)

func TestPurgeRemovesOnlyARoot(t *testing.T) {
	holding := func(names ...string) layout.Root {
		dir := filepath.Join(t.TempDir(), "root")
		for _, name := range names {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return layout.Root(dir)
	}

	root := holding("jobd.db", "jobd.db.lock", "lock", "tls/ca.key", "containerd/x", "logs/x", "hosts/docker.io/hosts.toml")
	if err := Purge(root); err != nil {
		t.Errorf("a root: %v", err)
	}
	if _, err := os.Stat(string(root)); !os.IsNotExist(err) {
		t.Errorf("the root is still there: %v", err)
	}
	if err := Purge(root); err != nil {
		t.Errorf("once more: %v", err)
	}

	disk := holding("jobd.db", "lost+found/x")
	if err := Purge(disk); err != nil {
		t.Errorf("a file system of its own: %v", err)
	}
	if left, err := os.ReadDir(string(disk)); err != nil || len(left) != 1 || left[0].Name() != "lost+found" {
		t.Errorf("of a file system of its own there is left %v, %v", left, err)
	}

	for _, names := range [][]string{{"thesis.tex", "containerd/x"}, {"jobd.db", "backup.db"}, {"jobd.db", "jobd.db.bak"}} {
		dir := holding(names...)
		if err := Purge(dir); err == nil || !strings.Contains(err.Error(), string(dir)) {
			t.Errorf("with %v: got %v, want that %s stays", names, err, dir)
		}
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(string(dir), name)); err != nil {
				t.Errorf("with %v: %v", names, err)
			}
		}
	}
}
