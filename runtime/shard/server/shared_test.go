package server

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/containerd/errdefs"
)

func TestSharedTrees(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
		return paths
	}
	for _, path := range at("a/b", "a-b", "state/c/rootfs") {
		must(t, os.MkdirAll(path, 0o700))
	}
	must(t, os.Symlink("a", at("link")[0]))
	own := at("other", "state/c/rootfs")
	must(t, os.Mkdir(own[0], 0o700))
	for name, c := range map[string]struct{ paths, want []string }{
		"none":                        {nil, nil},
		"one":                         {at("a"), at("a")},
		"one twice":                   {at("a", "a"), at("a")},
		"one in another":              {at("a/b", "a"), at("a")},
		"one whose name begins alike": {at("a", "a-b", "a/b"), at("a", "a-b")},
		"one by two names":            {at("link", "a/b"), at("a")},
		"the root":                    {append(at("a"), "/"), append([]string{"/"}, at("a")...)},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := sharedTrees(c.paths, own); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
	if got, err := sharedTrees(at("a", "state"), own); !errors.Is(err, errdefs.ErrFailedPrecondition) {
		t.Errorf("with something of its own in one: %q, %v", got, err)
	}
}
