// Package disk keeps the machine's disk from running full: it measures what pods take, removes images that no pod uses,
// shows on the Node that there is little room, and has pods evicted.
//
// It runs beside the control loop and reports evictions to it. It writes a part of the Node's object, and events about
// it.
package disk

import (
	"fmt"
	"syscall"

	"github.com/jobd/jobd/daemon/eviction"
	"github.com/jobd/jobd/runtime/image"
)

// statDisk measures the file system that a directory is on.
func statDisk(dir string) (eviction.Disk, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return eviction.Disk{}, fmt.Errorf("disk of %s: %w", dir, err)
	}
	return eviction.Disk{
		Capacity:  eviction.Size{Bytes: int64(stat.Blocks) * stat.Bsize, Inodes: int64(stat.Files)},
		Available: eviction.Size{Bytes: int64(stat.Bavail) * stat.Bsize, Inodes: int64(stat.Ffree)},
	}, nil
}

// imageDisk is the same for images.
func imageDisk(dir string) (image.Disk, error) {
	d, err := statDisk(dir)
	return image.Disk{Capacity: d.Capacity.Bytes, Available: d.Available.Bytes}, err
}
