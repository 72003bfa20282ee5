package untrusted

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

func TestWalk(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "tree")
	deepTree(t, tree, 3000)
	t.Cleanup(func() { _ = Remove(context.Background(), tree) })
	if err := errors.Join(
		os.MkdirAll(filepath.Join(tree, "a", "b"), 0o755), os.WriteFile(filepath.Join(tree, "a", "file"), nil, 0o600),
		os.MkdirAll(filepath.Join(tree, "c"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	walk := func(path string, maxPath int, visit func(dir int, name, path string, is *unix.Stat_t) error) error {
		t.Helper()
		top, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer top.Close()
		return Walk(top, maxPath, visit)
	}
	count := 0
	all := func(_ int, name, path string, _ *unix.Stat_t) error {
		if count++; path != "" {
			t.Errorf("%s has the path %s", name, path)
		}
		return nil
	}
	if err := walk(tree, 0, all); err != nil || count != 3006 {
		t.Errorf("%d are found, %v", count, err)
	}
	longest := 0
	measured := func(_ int, _, path string, _ *unix.Stat_t) error {
		longest = max(longest, len(path))
		return nil
	}
	if err := walk(tree, 1001, measured); !errdefs.IsOutOfRange(err) || longest != 1001 {
		t.Errorf("the longest path has %d bytes, %v", longest, err)
	}
	if err := Remove(t.Context(), filepath.Join(tree, "d")); err != nil {
		t.Fatal(err)
	}
	var paths []string
	listed := func(_ int, name, path string, _ *unix.Stat_t) error {
		if filepath.Base(path) != name {
			t.Errorf("%s has the path %s", name, path)
		}
		paths = append(paths, path)
		return nil
	}
	err := walk(tree, 100, listed)
	slices.Sort(paths)
	if got := strings.Join(paths, " "); err != nil || got != ". a a/b a/file c" {
		t.Errorf("%s, %v", got, err)
	}
	enough := errors.New("enough")
	count = 0
	err = walk(tree, 0, func(int, string, string, *unix.Stat_t) error {
		if count++; count == 3 {
			return enough
		}
		return nil
	})
	if err != enough || count != 3 {
		t.Errorf("%d are visited, %v", count, err)
	}
	err = walk(tree, 100, func(_ int, _, path string, _ *unix.Stat_t) error {
		if path != "a/b" {
			return nil
		}
		return os.Rename(filepath.Join(tree, "a", "b"), filepath.Join(tree, "c", "b")) // before it is entered
	})
	if err != nil {
		t.Errorf("what was renamed: %v", err)
	}
	moved := false
	err = walk(tree, 100, func(_ int, _, path string, _ *unix.Stat_t) error {
		if path == "c/b" && !moved {
			moved = true
			return os.WriteFile(filepath.Join(tree, "c", "b", "file"), nil, 0o600)
		} else if path == "c/b/file" {
			return os.Rename(filepath.Join(tree, "c", "b"), filepath.Join(tree, "a", "b"))
		}
		return nil
	})
	if !errdefs.IsAborted(err) {
		t.Errorf("what was moved while it is read: %v", err)
	}
}
