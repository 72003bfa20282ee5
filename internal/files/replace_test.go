package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	for name, write := range map[string]func(string, []byte, fs.FileMode) error{"fast": Replace, "durable": ReplaceDurably} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "a")
			// What was left by a process that was killed is in nobody's way.
			if err := os.WriteFile(path+Unfinished, []byte("half of something long"), 0o644); err != nil {
				t.Fatal(err)
			}
			for content, mode := range map[string]fs.FileMode{"one": 0o666, "and another": 0o600} {
				if err := write(path, []byte(content), mode); err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(path)
				info, statErr := os.Stat(path)
				if err != nil || statErr != nil || string(got) != content || info.Mode() != mode {
					t.Errorf("got %q, %v, %v, %v; want %q, %v", got, info.Mode(), err, statErr, content, mode)
				}
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("in the directory are %v, %v", entries, err)
			}
			if err := write(filepath.Join(dir, "missing", "a"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("in a directory that is missing: %v", err)
			}
		})
	}
}
