package tend

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/volume"
)

// DiskLimits measures the disk usage of pods that have a limit of it.
type DiskLimits struct {
	loop.Base
	loop.NoPods
	timers *loop.Timers
	pods   Pods
	every  func(namespace string) time.Duration
}

// NewDiskLimits makes the controller. every is how often the pods of a namespace are measured.
func NewDiskLimits(timers *loop.Timers, pods Pods, every func(namespace string) time.Duration) *DiskLimits {
	return &DiskLimits{timers: timers, pods: pods, every: every}
}

// watch sets the next time to measure a pod, if it has such a limit.
func (d *DiskLimits) watch(key string, p *corev1.Pod, now time.Time) {
	if volume.DiskLimited(p) || objects.StorageLimited(&p.Spec) {
		d.timers.Set(d, key, now.Add(d.every(p.Namespace)))
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
