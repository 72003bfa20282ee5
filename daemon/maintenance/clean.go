package maintenance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/lock"
	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/containerd"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/runtime/persistent"
)

// Volumes lists the volumes of claims in a root.
func Volumes(c config.Config) ([]string, error) {
	if err := c.Complete(); err != nil {
		return nil, err
	}
	return files.Names(c.RootLayout().Volumes())
}

// Found reports whether there is anything of jobd's in the root or the state directory.
func Found(c config.Config) (bool, error) {
	if err := c.Complete(); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(c.Root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return c.RootLayout().Owns(e.Name()) }) {
		return true, nil
	}
	own, err := c.StateLayout().Own()
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return len(own) > 0, err
}

// Clean ends every container of a root whose daemon is not running, and removes what they left on the host. Then
// it calls a function that may remove more of the root, such as Purge, while no daemon can start there; nil removes nothing.
// Directories that are somebody else's are refused, and nothing is written there.
func Clean(ctx context.Context, c config.Config, remove func(layout.Root) error) error {
	if err := c.Complete(); err != nil {
		return err
	}
	root, state := c.RootLayout(), c.StateLayout()
	if err := checkOwn(root, state); err != nil {
		return err
	}
	// Where there is no file to lock there never was a daemon.
	if _, err := os.Stat(root.Lock()); err == nil {
		held, err := lock.Root(root)
		if err != nil {
			return err
		}
		defer held.Close()
	}
	if _, err := os.Stat(state.Lock()); err == nil {
		held, err := lock.State(state)
		if err != nil {
			return err
		}
		defer held.Close()
	}
	if err := lock.Foreign(state, root); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("must run as root, since it ends containers")
	}
	if err := containerd.Clean(ctx, c.Root, c.State); err != nil {
		return err
	}
	if err := persistent.Clean(c.Root, c.State); err != nil {
		return err
	}
	if err := network.Clean(c.Root); err != nil {
		return err
	}
	if remove == nil {
		return nil
	}
	return remove(root)
}

// checkOwn returns an error if a directory is somebody else's: it holds other things, and nothing that only jobd writes.
// Names alone do not tell, since /etc has "hosts" and /run has "containerd".
func checkOwn(root layout.Root, state layout.State) error {
	owns := func(name string) bool { return root.Owns(name) || state.Owns(name) || name == "lost+found" }
	if foreign, err := holdsOthers(string(root), owns, root.Database(), root.Run()); err != nil {
		return err
	} else if foreign {
		return fmt.Errorf("there is no root of jobd in %s: choose another --root", root)
	}
	if string(state) == string(root) {
		return nil
	}
	if own, err := state.Own(); len(own) == 0 && (err == nil || errors.Is(err, os.ErrNotExist)) {
		return nil // nothing would be removed
	}
	if foreign, err := holdsOthers(string(state), owns, state.Owner()); err != nil {
		return err
	} else if foreign {
		return fmt.Errorf("there is no state of jobd in %s: choose another --state", state)
	}
	return nil
}

// holdsOthers reports whether a directory has what owns does not know, and none of the files that only jobd writes.
func holdsOthers(dir string, owns func(name string) bool, marks ...string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	others := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !owns(e.Name()) })
	marked := slices.ContainsFunc(marks, func(path string) bool {
		info, err := os.Lstat(path)
		return err == nil && info.Mode().IsRegular()
	})
	return others && !marked, err
}
