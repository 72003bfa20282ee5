package maintenance

import (
	"context"
	"errors"
	"os"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/lock"
	"github.com/jobd/jobd/layout"
	"github.com/jobd/jobd/runtime/containerd"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/runtime/persistent"
)

// Volumes lists the volumes of claims in a root.
func Volumes(c config.Config) ([]string, error) {
	if err := c.Complete(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(c.RootLayout().Volumes())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// Clean ends every container of a root whose daemon is not running, and removes what they left on the host. Then
// it calls a function that may remove more of the root, such as Purge, while no daemon can start there; nil removes nothing.
func Clean(ctx context.Context, c config.Config, remove func(layout.Root) error) error {
	if err := c.Complete(); err != nil {
		return err
	}
	root, state := c.RootLayout(), c.StateLayout()
	if _, err := os.Stat(c.Root); err == nil {
		held, err := lock.Root(root)
		if err != nil {
			return err
		}
		defer held.Close()
	}
	if _, err := os.Stat(c.State); err == nil {
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
