package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jobd/jobd/runtime/containerd"
)

// foreign fails when a state directory holds containers of another root, whose daemon need not run.
func foreign(state, root string) error {
	owner, err := os.ReadFile(filepath.Join(state, containerd.StateRoot))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	if len(owner) == 0 || string(owner) == root {
		return nil
	}
	held, err := filepath.Glob(filepath.Join(state, "shards", "*", "containers", "*"))
	if err != nil || len(held) == 0 {
		return err
	}
	return fmt.Errorf("%s holds %d containers of the root %s: choose another --state, or end them with: jobd clean --root %[3]s --state %[1]s",
		state, len(held), owner)
}

// claim makes a state directory that of a root.
func claim(state, root string) error {
	if err := foreign(state, root); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(state, containerd.StateRoot), []byte(root), 0o600); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}
