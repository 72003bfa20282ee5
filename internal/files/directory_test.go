package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
)

func TestMkdirAll(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule, path string
		want       error
	}{
		{"all that are missing are made", filepath.Join(base, "a", "b", "c"), nil},
		{"one that is there stays", filepath.Join(base, "a", "b", "c"), nil},
		{"one more beside it", filepath.Join(base, "a", "b", "d"), nil},
		{"nothing is made below a file", filepath.Join(file, "a", "b"), unix.ENOTDIR},
	} {
		err := files.MkdirAll(c.path, 0o711)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v", c.rule, err)
		}
		if info, err := os.Stat(c.path); c.want == nil && (err != nil || info.Mode() != os.ModeDir|0o711) {
			t.Errorf("%s: got %v, %v", c.rule, info, err)
		}
	}
}
