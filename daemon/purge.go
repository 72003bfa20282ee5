package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ownInRoot matches the names of all that jobd keeps in its root, or reads there. A copy of the database is none of them.
var ownInRoot = []string{
	"containerd", databaseName, databaseName + ".compact", databaseName + ".lock", databaseName + ".new", "docker", "hosts", "kubeconfig", ".kubeconfig-*", "lock", "logs", "oci-runtimes.json*", "pods", "seccomp", tlsDir,
}

// purge removes a root. A directory that holds anything else stays, with all that is in it: a wrong --root must not
// cost what is not jobd's. Where it is a file system of its own, that stays mounted, and empty.
func purge(root string) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	var own, others []string
	for _, e := range entries {
		if e.Name() == "lost+found" {
			continue // of the file system
		}
		own = append(own, filepath.Join(root, e.Name()))
		if !slices.ContainsFunc(ownInRoot, func(pattern string) bool {
			matched, _ := filepath.Match(pattern, e.Name())
			return matched
		}) {
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
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("purge: %w", err)
		}
	}
	if err := os.Remove(root); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}
