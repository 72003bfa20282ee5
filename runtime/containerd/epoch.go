package containerd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime"
)

// readEpoch returns the name of this life of the state directory: a new one when the directory is new, when the host has
// been started since, or when the images in the root are not those that the directory knows, since somebody has removed the
// root or put another one in its place. It is an error if containers are left in that case: what they run from may only not be
// mounted yet.
func readEpoch(ctx context.Context, root layout.Root, state layout.State) (string, error) {
	boot, err := runtime.BootID()
	if err != nil {
		return "", err
	}
	store, err := storeID(root)
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(state.Epoch())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	epoch := ""
	if known := strings.Fields(string(content)); len(known) >= 2 && known[0] == boot {
		switch {
		case len(known) == 3 && known[2] == store:
			return known[1], nil
		case len(known) == 2: // of an older jobd
			epoch = known[1]
		default:
			if err := leaveStore(ctx, root, state); err != nil {
				return "", err
			}
		}
	}
	if epoch == "" {
		epoch = fmt.Sprintf("%x", time.Now().UnixNano())
	}
	return epoch, files.Replace(state.Epoch(), []byte(boot+" "+epoch+" "+store), 0o600)
}

// storeID returns what tells the images and layers of one root from those of all others.
func storeID(root layout.Root) (string, error) {
	path := filepath.Join(root.Containerd(), "id")
	id, err := os.ReadFile(path)
	if err == nil && len(id) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return string(id), err
	}
	if err := os.MkdirAll(root.Containerd(), 0o700); err != nil {
		return "", err
	}
	fresh := rand.Text()
	return fresh, files.Replace(path, []byte(fresh), 0o600)
}

// leaveStore ends the shards of a state directory, which keep layers mounted.
func leaveStore(ctx context.Context, root layout.Root, state layout.State) error {
	held, err := state.Containers()
	if err != nil {
		return err
	}
	if len(held) > 0 {
		return fmt.Errorf("containers in %s run from other images than those in %s, which was removed or replaced: "+
			"put it back, or end them with: jobd clean --root %s --state %s", state, root.Containerd(), root, state)
	}
	return endShards(ctx, string(state))
}
