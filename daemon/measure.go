package daemon

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime/volume"
)

// measureEvery is how often it is measured what pods take of the disk, of those that have a limit there.
const measureEvery = 5 * time.Second

// watchDisk lets a pod that has come to the node be measured, if it has a limit.
func (r *records) watchDisk(key string, p *corev1.Pod, now time.Time) {
	if volume.DiskLimited(p) || objects.StorageLimited(&p.Spec) {
		r.due.Set(timerKey{dueMeasure, key}, now.Add(measureEvery))
	}
}

// measureDisk asks for what a pod takes of the disk, and does so again as long as it runs.
func (p *pass) measureDisk(key string) error {
	obj, ok, err := p.pods.Get(key)
	if err != nil || !ok || !runs(obj) {
		return err
	}
	p.records.watchDisk(key, obj, p.now)
	p.effects = append(p.effects, effect{pod: obj, actions: []pod.Action{{Kind: pod.Measure}}})
	return nil
}
