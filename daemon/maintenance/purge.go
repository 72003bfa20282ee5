package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/untrusted"
)

// Purge removes a root with the volumes of claims. A directory that holds anything else is left alone with all its
// contents: a wrong --root must not cost files that are not jobd's. If the root is a mount point, it stays mounted, and
// empty.
func Purge(root layout.Root) error {
	entries, err := os.ReadDir(string(root))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	var own, others []string
	for _, e := range entries {
		if e.Name() == "lost+found" {
			continue // the file system's own
		}
		own = append(own, filepath.Join(string(root), e.Name()))
		if !root.Owns(e.Name()) {
			others = append(others, e.Name())
		}
	}
	if len(others) > 0 {
		if len(others) > 5 {
			others = append(others[:5], "...")
		}
		return fmt.Errorf("%s is not removed, since it also holds what is not jobd's (%s): move that away, or choose another --root",
			root, strings.Join(others, ", "))
	}
	for _, path := range own {
		err := untrusted.Remove(context.Background(), path)
		if errors.Is(err, untrusted.ErrMounted) {
			err = os.RemoveAll(path) // a mount point below the root is emptied
		}
		if err != nil {
			return fmt.Errorf("purge: %w", err)
		}
	}
	if err := os.Remove(string(root)); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}
