package userns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// try fails if pods whose files are in these directories cannot have user namespaces on this host.
func (n *Namespaces) try(on []string) error {
	fail := func(what string, err error) error {
		return fmt.Errorf("user namespaces are not possible on this host: %s: %w", what, errors.Join(err, errdefs.ErrNotImplemented))
	}
	if err := n.enter(n.ids.First, 0, func(pid int) error {
		namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
		if err != nil {
			return err
		}
		defer namespace.Close()
		for _, dir := range on {
			tree, err := CopyMount(dir, namespace, MountOptions{})
			if err != nil {
				return fmt.Errorf("the kernel cannot map the ids of the file system %s has: %w", dir, err)
			}
			unix.Close(tree)
		}
		return nil
	}); err != nil {
		return fail("make one", err)
	}
	if dir, err := closed(n.dir); err != nil || dir != "" {
		return fail(fmt.Sprintf("the users of pods must be able to pass through %s: chmod a+x %s", dir, dir), err)
	}
	return nil
}

// closed returns the nearest directory above a path that not all users may pass through, "" if there is none.
func closed(path string) (string, error) {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		var stat unix.Stat_t
		if err := unix.Stat(dir, &stat); err != nil && !errors.Is(err, unix.ENOENT) {
			return dir, err
		} else if err == nil && stat.Mode&0o001 == 0 {
			return dir, nil
		}
		if dir == "/" {
			return "", nil
		}
	}
}
