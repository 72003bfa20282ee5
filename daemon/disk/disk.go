// Package disk keeps the machine's disk from filling up: it measures what pods use, removes images that no pod uses,
// shows on the Node that little space is left, and evicts pods.
//
// Figures of the disk, the images and the running pods come in. What goes out are evictions, which it reports to the
// control loop, a part of the Node object, and events about the Node. It runs beside the control loop, and removes
// nothing but images.
package disk

import (
	"fmt"
	"os"
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

// imageDisk is the same for package image.
func imageDisk(dir string) (image.Disk, error) {
	d, err := statDisk(dir)
	return image.Disk{Capacity: d.Capacity.Bytes, Available: d.Available.Bytes}, err
}

// ImageSpace returns what images are to know of the disk of a directory: they leave what pods would be evicted for. Without
// thresholds it is nil.
func ImageSpace(dir string, thresholds []eviction.Threshold) func() (free, reserve image.Size, err error) {
	if len(thresholds) == 0 {
		return nil
	}
	return func() (free, reserve image.Size, err error) {
		d, err := statDisk(dir)
		r := eviction.Reserve(thresholds, d)
		return image.Size(d.Available), image.Size(r), err
	}
}

// DatabaseSpace returns what clients that write are bounded by: how much the disk of a directory has left beyond what pods would be
// evicted for, and how large the database is.
func DatabaseSpace(dir, database string, thresholds []eviction.Threshold) func() (left, size int64, err error) {
	return func() (left, size int64, err error) {
		d, err := statDisk(dir)
		if err != nil {
			return 0, 0, err
		}
		info, err := os.Stat(database)
		if err != nil {
			return 0, 0, err
		}
		return d.Available.Bytes - eviction.Reserve(thresholds, d).Bytes, info.Size(), nil
	}
}
