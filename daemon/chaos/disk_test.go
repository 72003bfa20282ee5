package chaos

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// diskBytes is the size of the file system of the database.
const diskBytes = "size=128m"

// disk is where the database is, a file system of its own, which others may fill. Without root it is a directory, which never is full.
type disk struct {
	dir   string
	small bool
}

// newDisk needs no bubble.
func newDisk(t *testing.T) disk {
	d := disk{dir: t.TempDir()}
	if err := syscall.Mount("tmpfs", d.dir, "tmpfs", 0, diskBytes); err == nil {
		d.small = true
		t.Cleanup(func() {
			if err := syscall.Unmount(d.dir, 0); err != nil {
				t.Error(err)
			}
		})
	}
	return d
}

func (d disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill leaves no more room than a share of what is free, in percent.
func (d disk) fill(r *rand.Rand) error {
	var free syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &free); !d.small || err != nil {
		return err
	}
	f, err := os.OpenFile(d.ballast(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	taken := int64(free.Bavail) * free.Bsize
	if r.IntN(2) == 0 { // a little is left
		taken -= r.Int64N(1 << 20)
	}
	info, err := f.Stat()
	if err != nil || taken <= 0 {
		return err
	}
	if err := syscall.Fallocate(int(f.Fd()), 0, info.Size(), taken); !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}

// empty makes room again.
func (d disk) empty() error {
	if err := os.Remove(d.ballast()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// put puts a copy of a file there, in the place of the one that is.
func (d disk) put(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
