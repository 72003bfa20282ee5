package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ownInRoot matches the names of all that jobd keeps in its root, or reads there.
var ownInRoot = []string{
	"containerd", databaseName + "*", "docker", "hosts", "kubeconfig", ".kubeconfig-*", "lock", "logs", "oci-runtimes.json*", "pods", "seccomp", tlsDir,
}

// purge removes a root. A directory that holds anything else stays, with all that is in it: a wrong --root must not
// cost what is not jobd's.
func purge(root string) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	var others []string
	for _, e := range entries {
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
	return os.RemoveAll(root)
}
