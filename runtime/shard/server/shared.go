package server

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
)

// sharedTrees gives the places that paths on the host lead to, from and to which mounts spread, without those inside of
// another one: a tree is taken hold of with all that is in it, and what is mounted over a part of one that is shared gets
// to the host, each time. Nor may the root file system of the container be mounted in one, for the same reason.
func sharedTrees(paths []string, rootfs string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	rootfs, err := filepath.EvalSymlinks(rootfs)
	if err != nil {
		return nil, fmt.Errorf("share mounts: %w", err)
	}
	places := make([]string, len(paths))
	for i, path := range paths {
		if places[i], err = filepath.EvalSymlinks(path); err != nil {
			return nil, fmt.Errorf("share mounts of %s: %w", path, err)
		}
		if inside(rootfs, places[i]) {
			return nil, fmt.Errorf("share mounts of %s: the containers' own are made there: %w", path, errdefs.ErrFailedPrecondition)
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

// inside tells whether a path is below a directory. None is below the root: what is mounted over that is in nobody's way.
func inside(path, dir string) bool { return dir != "/" && strings.HasPrefix(path, dir+"/") }
