package files

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a~new"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := Names(dir); err != nil || !slices.Equal(names, []string{"a~new", "b"}) {
		t.Errorf("%q, %v", names, err)
	}
	if names, err := Names(filepath.Join(dir, "none")); err != nil || names != nil {
		t.Errorf("of a directory that does not exist: %q, %v", names, err)
	}
	if _, err := Names(filepath.Join(dir, "b")); err == nil {
		t.Error("a file has names")
	}
}

func TestSyncDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := SyncDirectory(dir); err != nil {
		t.Error(err)
	}
	if err := SyncDirectory(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("of a directory that does not exist: %v", err)
	}
}
