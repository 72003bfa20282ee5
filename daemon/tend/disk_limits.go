package tend

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/volume"
)

// measureInterval is how often the disk usage of such a pod is measured.
const measureInterval = 5 * time.Second

// DiskLimits measures the disk usage of pods that have a limit of it.
type DiskLimits struct {
	loop.Base
	loop.NoPods
	timers *loop.Timers
	pods   Pods
}

// NewDiskLimits makes the controller.
func NewDiskLimits(timers *loop.Timers, pods Pods) *DiskLimits {
	return &DiskLimits{timers: timers, pods: pods}
}

// watch sets the next time to measure a pod, if it has such a limit.
func (d *DiskLimits) watch(key string, p *corev1.Pod, now time.Time) {
	if volume.DiskLimited(p) || objects.StorageLimited(&p.Spec) {
		d.timers.Set(d, key, now.Add(measureInterval))
	}
}

// PodBound implements loop.PodFollower.
func (d *DiskLimits) PodBound(key string, p *corev1.Pod, now time.Time) { d.watch(key, p, now) }

// PodForgotten implements loop.PodFollower.
func (d *DiskLimits) PodForgotten(key string) { d.timers.Set(d, key, time.Time{}) }

// Due measures a pod, and sets the next time while the pod runs.
func (d *DiskLimits) Due(p *loop.Pass, key string) error {
	obj, ok, err := p.Pods.Get(key)
	if err != nil || !ok || !objects.Runs(obj) {
		return err
	}
	d.watch(key, obj, p.Now)
	d.pods.Do(p, obj, duty.Action{Kind: duty.Measure})
	return nil
}
