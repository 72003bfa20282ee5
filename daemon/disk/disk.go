// Package disk is the machine's disk as package pressure watches over it: it measures what is left and what pods use, removes images
// that no pod uses, and lets files go that ended pods keep.
package disk

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/eviction"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/store"
)

// Options are what a Disk needs.
type Options struct {
	Root   string // a directory on the disk
	Images *ImageCollector
	Pods   Usage
	Store  *store.Store
	// Report tells the control loop that ended pods keep their files no longer.
	Report func([]duty.Observation)
	Logger *slog.Logger
}

// Disk is what everything of a root lies on. It implements pressure.Resource.
type Disk struct {
	Options
	survey survey
}

// New makes a Disk.
func New(o Options) *Disk { return &Disk{o, survey{use: o.Pods.use}} }

// Measure implements pressure.Resource.
func (d *Disk) Measure() (eviction.Supply, error) { return statDisk(d.Root) }

// Uses implements pressure.Resource.
func (d *Disk) Uses(ctx context.Context, pods []*corev1.Pod) []eviction.Use {
	return d.survey.take(ctx, pods)
}

// Holds implements pressure.Resource.
func (d *Disk) Holds(ctx context.Context, p *corev1.Pod) bool { return d.Pods.holds(ctx, p) }

// Reclaim implements pressure.Resource: it removes the files of ended pods, or else unused images.
func (d *Disk) Reclaim(ctx context.Context, now time.Time) (wait bool) {
	if d.dropFiles(now) {
		return true
	}
	d.Images.reclaim(ctx)
	return false
}

// dropFiles lets pods that have ended keep their files no longer, and reports whether there were any.
func (d *Disk) dropFiles(now time.Time) bool {
	var dropped []duty.Observation
	err := d.Store.View(func(s *store.Snapshot) error {
		var failed error
		s.Range(objects.Pods+"/", "", func(o store.Object) bool {
			p := &corev1.Pod{}
			if failed = scheme.DecodePart(o.Value, objects.PodEnd, p); failed != nil || !podspec.Ended(p) {
				return failed == nil
			}
			p = &corev1.Pod{}
			if failed = objects.Decode(o, p); failed == nil && !pod.Done(p) && p.DeletionTimestamp == nil {
				if keep, err := core.KeepFiles(p.Annotations); err == nil && keep > 0 {
					dropped = append(dropped, duty.Observation{
						What: duty.FilesDropped, UID: p.UID, Namespace: p.Namespace, Name: p.Name, At: now,
					})
				}
			}
			return failed == nil
		})
		return failed
	})
	if err != nil {
		d.Logger.Warn("cannot read which pods keep their files", "error", err)
	}
	if len(dropped) > 0 {
		d.Logger.Warn("removed the files of pods that have ended, for want of disk", "pods", len(dropped))
		d.Report(dropped)
	}
	return len(dropped) > 0
}

// statDisk measures the file system that a directory is on.
func statDisk(dir string) (eviction.Supply, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return eviction.Supply{}, fmt.Errorf("disk of %s: %w", dir, err)
	}
	return eviction.Supply{
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
