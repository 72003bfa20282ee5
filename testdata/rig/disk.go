package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk is a place for root directories. What files cost differs between file systems by more than anything else, so it can be
// a file system of a known kind.
type Disk struct {
	Dir string

	below string // what is removed
	loop  bool
}

// NewDisk makes a disk of a kind: "loop" is NewLoop below /var/tmp, "machine" is /var/tmp itself, and anything else a directory.
func NewDisk(ctx context.Context, kind string) (*Disk, error) {
	switch kind {
	case "loop":
		return NewLoop(ctx, "/var/tmp")
	case "machine":
		return newDir("/var/tmp")
	}
	return newDir(kind)
}

func newDir(below string) (*Disk, error) {
	dir, err := os.MkdirTemp(below, "jobd-rig.")
	if err != nil {
		return nil, err
	}
	d := &Disk{Dir: dir, below: dir}
	if err := os.Chmod(dir, 0o711); err != nil { // the users of pods pass through it
		return nil, errors.Join(err, d.Remove())
	}
	return d, nil
}

// NewLoop makes an ext4 with a journal in a file of 16 GiB below a directory, which is sparse.
func NewLoop(ctx context.Context, below string) (*Disk, error) {
	d, err := newDir(below)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(d.below, "ext4")
	d.Dir = filepath.Join(d.below, "mounted")
	for _, command := range [][]string{
		{"mkdir", d.Dir},
		{"truncate", "-s", "16G", file},
		{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", file}, // nothing is left to a later time
		{"mount", "-o", "loop", file, d.Dir},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w: %s", command[0], err, out), d.Remove())
		}
	}
	d.loop = true
	return d, os.Chmod(d.Dir, 0o711)
}

// Remove removes the disk and all that is on it.
func (d *Disk) Remove() error {
	if d.loop {
		if err := unix.Unmount(d.Dir, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", d.Dir, err)
		}
	}
	return os.RemoveAll(d.below)
}
