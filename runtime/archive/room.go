package archive

import (
	"fmt"
	"io"
	"os"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Project quotas do not hold back root, nor do the blocks that a file system reserves, so that what is written here must
// leave some room by itself.

const (
	// maxFloor is how many bytes are left free at most; small volumes keep a hundredth of their size.
	maxFloor = 64 << 20
	// maxInodeFloor is the same for inodes.
	maxInodeFloor = 1024
	// chunk is how many bytes are written at most before the room is measured again.
	chunk = 256 << 10
)

// findDisks determines which directories are asked for free space: the tree's own, for which file systems with project
// quotas return what its project may use, and the one above it for the disk, unless that is another one.
func (t *Tree) findDisks() error {
	above, err := unix.Openat(int(t.top.Fd()), "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "..", Err: err}
	}
	disk := os.NewFile(uintptr(above), "..")
	var own, its unix.Stat_t
	if unix.Fstat(int(t.top.Fd()), &own) == nil && unix.Fstat(above, &its) == nil && own.Dev == its.Dev {
		t.disks = append(t.disks, disk)
		return nil
	}
	return disk.Close()
}

// checkRoom returns ErrResourceExhausted if so many bytes do not fit.
func (t *Tree) checkRoom(size int64) error {
	for _, disk := range t.disks {
		var is unix.Statfs_t
		if err := unix.Fstatfs(int(disk.Fd()), &is); err != nil {
			return fmt.Errorf("measure free space: %w", err)
		}
		block := int64(is.Bsize)
		total, free := int64(is.Blocks)*block, int64(is.Bavail)*block
		if floor := min(total/100, maxFloor); total > 0 && free-floor < size {
			return fmt.Errorf("the volume or its disk has no room for %d bytes: %d are free, of which %d stay free: %w",
				size, free, floor, errdefs.ErrResourceExhausted)
		}
		if is.Files > 0 && is.Ffree <= min(is.Files/100, maxInodeFloor) {
			return fmt.Errorf("the volume or its disk has just %d inodes left: %w", is.Ffree, errdefs.ErrResourceExhausted)
		}
	}
	return nil
}

// fill copies content into a file as long as there is room: others write too.
func (t *Tree) fill(file *os.File, content io.Reader) error {
	buffer := make([]byte, chunk)
	for {
		n, err := content.Read(buffer)
		if n > 0 {
			if err := t.checkRoom(int64(n)); err != nil {
				return err
			}
			if _, err := file.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
