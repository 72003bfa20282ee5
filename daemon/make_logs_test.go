package daemon

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyRootListsTheLogs(t *testing.T) {
	base := t.TempDir()
	for name, before := range map[string]os.FileMode{"new": 0, "old": 0o755} {
		dir := filepath.Join(base, name)
		if before != 0 {
			if err := os.Mkdir(dir, before); err != nil {
				t.Fatal(err)
			}
		}
		if err := makeLogs(dir); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o711 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}
