package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/jobd/jobd/internal/layout"
)

// Foreign returns an error if a state directory holds containers of another root. The daemon of that root need not be
// running.
func Foreign(state layout.State, root layout.Root) error {
	owner, err := os.ReadFile(state.Owner())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	if len(owner) == 0 || layout.Root(owner) == root {
		return nil
	}
	held, err := state.Containers()
	if err != nil || len(held) == 0 {
		return err
	}
	return fmt.Errorf("%s holds %d containers of the root %s: "+
		"choose another --state, or end them with: jobd clean --root %[3]s --state %[1]s", state, len(held), owner)
}

// Claim records in a state directory that it belongs to a root, unless it is Foreign.
func Claim(state layout.State, root layout.Root) error {
	if err := Foreign(state, root); err != nil {
		return err
	}
	if err := os.WriteFile(state.Owner(), []byte(root), 0o600); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}
