package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/eviction"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/store"
)

const (
	// The disk is looked at as often as a kubelet does it, and more often when little is left: a system call each time.
	diskPeriod, diskPeriodNear = 10 * time.Second, time.Second
	// evictionPatience is how long one pod that was evicted is waited for before the next one is.
	evictionPatience = 30 * time.Second
)

// diskPressure sees to it that the disk does not run full: it shows on the Node that it is short, which keeps new pods away,
// removes images that no pod uses, and then evicts one pod after the other.
type diskPressure struct {
	thresholds []eviction.Threshold
	lasts      time.Duration
	root       string
	node       *ownNode
	images     *imageGC
	disk       podDisk
	report     func([]pod.Observation)
	logger     *slog.Logger

	pressure eviction.Pressure
	next     time.Time   // when something may be done against it again
	going    *corev1.Pod // was evicted last
	since    time.Time
}

// Run looks at the disk until ctx ends.
func (w *diskPressure) Run(ctx context.Context) {
	if n, err := w.node.get(); err == nil && n != nil {
		w.pressure.On = slices.ContainsFunc(n.Status.Conditions, underDiskPressure)
	}
	for ctx.Err() == nil {
		disk, err := statDisk(w.root)
		if err != nil {
			w.logger.Warn("how full the disk is", "error", err)
		} else {
			w.look(ctx, disk, time.Now())
		}
		period := diskPeriod
		switch {
		case len(w.thresholds) == 0 && !w.pressure.On:
			return // there is nothing to look for, and nothing left of an older run
		case w.pressure.On || eviction.Near(w.thresholds, disk):
			period = diskPeriodNear
		}
		sleep(ctx, period)
	}
}

// look does what is to be done about the disk as it is now.
func (w *diskPressure) look(ctx context.Context, disk eviction.Disk, now time.Time) {
	short, is := eviction.Short(w.thresholds, disk)
	changed := w.pressure.See(is, now, w.lasts)
	if err := w.node.update(ctx, func(n *corev1.Node) { showDiskPressure(n, w.pressure.On, now) }); err != nil && ctx.Err() == nil {
		w.logger.Warn("the node does not show how full the disk is", "error", err)
	}
	if changed {
		status, says := "NodeHasNoDiskPressure", "the disk has room again, new pods may start"
		if w.pressure.On {
			status, says = "NodeHasDiskPressure", "the disk is nearly full, no new pods start"
			w.node.tell(ctx, corev1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim "+string(short.Signal.Resource()))
		}
		w.logger.Warn(says, "available", disk.Available.Bytes, "inodesFree", disk.Available.Inodes)
		w.node.tell(ctx, corev1.EventTypeNormal, status, fmt.Sprintf("Node %s status is now: %s", w.node.name, status))
	}
	if is && !w.waits(now, w.disk.holds) {
		w.relieve(ctx, now)
	}
}

// waits tells whether what was done before has still to take effect.
func (w *diskPressure) waits(now time.Time, holds func(*corev1.Pod) bool) bool {
	if w.going != nil && now.Sub(w.since) < evictionPatience && holds(w.going) {
		// From its end on the disk has time to show it: files go in the background, and some file systems tell of it late.
		w.next = now.Add(diskPeriod)
	}
	return now.Before(w.next)
}

// relieve makes room: by images if that suffices, else by a pod.
func (w *diskPressure) relieve(ctx context.Context, now time.Time) {
	w.next = now.Add(diskPeriod)
	w.images.reclaim(ctx)
	disk, err := statDisk(w.root)
	if err != nil {
		w.logger.Warn("how full the disk is", "error", err)
		return
	}
	if short, is := eviction.Short(w.thresholds, disk); is {
		uses, err := w.uses()
		if err != nil {
			w.logger.Warn("what pods take of the disk", "error", err)
			return
		}
		victim, why := eviction.First(uses, short)
		if victim == nil {
			return
		}
		w.logger.Warn("evicted for want of disk", "pod", victim.Namespace+"/"+victim.Name, "reason", why)
		w.going, w.since = victim, now
		w.report([]pod.Observation{{
			What: pod.Evicted, UID: victim.UID, Namespace: victim.Namespace, Name: victim.Name, At: now, Message: why,
		}})
	}
}

// uses measures the pods that run, but for the one that was evicted last.
func (w *diskPressure) uses() (uses []eviction.Use, err error) {
	var running []*corev1.Pod
	err = w.node.store.View(func(s *store.Snapshot) error {
		var failed error
		s.Range(pods+"/", "", func(o store.Object) bool {
			p := newPod()
			if failed = scheme.DecodePart(o.Value, podOnNode, p); failed == nil && runs(p) {
				p = newPod()
				failed = decode(o, p)
				running = append(running, p)
			}
			return failed == nil
		})
		return failed
	})
	for _, p := range running {
		if w.going != nil && w.going.UID == p.UID {
			continue // it was waited for in vain
		}
		uses = append(uses, w.disk.use(p))
	}
	return uses, err
}

func underDiskPressure(c corev1.NodeCondition) bool {
	return c.Type == corev1.NodeDiskPressure && c.Status == corev1.ConditionTrue
}

// showDiskPressure brings the condition of a Node and the taint that belongs to it up to date.
func showDiskPressure(n *corev1.Node, on bool, now time.Time) {
	shown := corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"}
	if on {
		shown.Status, shown.Reason, shown.Message = corev1.ConditionTrue, "KubeletHasDiskPressure", "kubelet has disk pressure"
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == shown.Type && c.Status != shown.Status {
			shown.LastHeartbeatTime, shown.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
			*c = shown
		}
	}
	isTaint := func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeDiskPressure && t.Effect == corev1.TaintEffectNoSchedule
	}
	switch tainted := slices.ContainsFunc(n.Spec.Taints, isTaint); {
	case on && !tainted:
		added := metav1.NewTime(now)
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &added})
	case !on && tainted:
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isTaint)
	}
}

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

// watchDisk begins to look after the disk, if there are containers that fill it. It ends with the daemon.
func (d *daemon) watchDisk(ctx context.Context, node *ownNode, c *containers) error {
	thresholds, err := d.config.Eviction()
	if err != nil || c.collector == nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &diskPressure{
		thresholds: thresholds, lasts: d.config.EvictionPressureTransitionPeriod.Duration, root: d.config.Root, node: node,
		images: c.collector, disk: c.disk, report: d.loop.Report, logger: d.config.Logger,
	}
	var watching sync.WaitGroup
	watching.Go(func() { w.Run(ctx) })
	d.onStop(func() { cancel(); watching.Wait() })
	return nil
}
