package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk is a place for root directories. What files cost differs between file systems by more than anything else that is
// measured here, so by default the place is a file system of a known kind.
type disk struct {
	dir    string
	remove func()
}

// newDisk makes a disk of a kind: "loop" is an ext4 with a journal in a file below /var/tmp, "machine" is /var/tmp itself,
// and anything else a directory.
func newDisk(ctx context.Context, kind string) (*disk, error) {
	below := kind
	if kind == "loop" || kind == "machine" {
		below = "/var/tmp"
	}
	dir, err := os.MkdirTemp(below, "jobd-bench.")
	if err != nil {
		return nil, err
	}
	d := &disk{dir: dir, remove: func() { os.RemoveAll(dir) }}
	if kind != "loop" {
		return d, nil
	}
	file, mounted := filepath.Join(dir, "ext4"), filepath.Join(dir, "mounted")
	d.dir, d.remove = mounted, func() {
		_ = unix.Unmount(mounted, unix.MNT_DETACH)
		os.RemoveAll(dir)
	}
	for _, command := range [][]string{
		{"mkdir", mounted},
		{"truncate", "-s", "16G", file},
		{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", file}, // nothing is left to a later time
		{"mount", "-o", "loop", file, mounted},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			d.remove()
			return nil, fmt.Errorf("%s: %w: %s", command[0], err, out)
		}
	}
	return d, os.Chmod(mounted, 0o711) // the users of pods pass through it
}
