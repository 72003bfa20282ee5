package server

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
)

// sharedTrees resolves the paths on the host from and to which mounts propagate, and leaves out those inside another: a
// tree is cloned with all that is in it, and what is mounted over a part of a shared tree would be mounted on the host
// too, each time. For the same reason nothing of the container's own may be mounted in such a tree.
func sharedTrees(paths []string, own []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	own = slices.Clone(own)
	for i, path := range own {
		var err error
		if own[i], err = filepath.EvalSymlinks(path); err != nil {
			return nil, fmt.Errorf("share mounts: %w", err)
		}
	}
	places := make([]string, len(paths))
	for i, path := range paths {
		var err error
		if places[i], err = filepath.EvalSymlinks(path); err != nil {
			return nil, fmt.Errorf("share mounts of %s: %w", path, err)
		}
		if slices.ContainsFunc(own, func(path string) bool { return inside(path, places[i]) }) {
			return nil, fmt.Errorf("share mounts of %s: the containers' own are made there: %w", path,
				errdefs.ErrFailedPrecondition)
		}
	}
	slices.Sort(places) // so that what is outside comes first
	var trees []string
	for _, place := range places {
		if !slices.ContainsFunc(trees, func(tree string) bool { return place == tree || inside(place, tree) }) {
			trees = append(trees, place)
		}
	}
	return trees, nil
}

// inside reports whether a path is below a directory. Nothing counts as below the root, since what is mounted over that
// disturbs nobody.
func inside(path, dir string) bool { return dir != "/" && strings.HasPrefix(path, dir+"/") }
