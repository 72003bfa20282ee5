package disk

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/eviction"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/store"
)

const (
	// The disk is measured as often as by a kubelet, and more often when little is left; each time is one system call.
	diskPeriod, diskPeriodNear = 10 * time.Second, time.Second
	// evictionPatience is how long to wait for an evicted pod to go before the next one is evicted.
	evictionPatience = 30 * time.Second
)

// PressureOptions are what a Pressure needs.
type PressureOptions struct {
	Thresholds []eviction.Threshold
	// Transition is for how long the pressure is shown after the disk was last short.
	Transition time.Duration
	Root       string // a directory on the disk
	Node       *Node
	Images     *ImageCollector
	Pods       Usage
	// Report tells the control loop that a pod is evicted.
	Report func([]duty.Observation)
	Logger *slog.Logger
}

// Pressure keeps the disk from filling up: it shows on the Node that space is short, which keeps new pods away, removes
// images that no pod uses, and then evicts one pod after the other.
type Pressure struct {
	PressureOptions

	mu       sync.Mutex // protects shown
	shown    Shortage
	pressure eviction.Pressure
	next     time.Time   // when the next measure may be taken
	going    *corev1.Pod // the pod that was evicted last
	since    time.Time
	survey   survey
}

// NewPressure makes a Pressure that does nothing until it runs.
func NewPressure(o PressureOptions) *Pressure {
	return &Pressure{PressureOptions: o, survey: survey{use: o.Pods.use}}
}

// Run watches the disk until ctx ends.
func (w *Pressure) Run(ctx context.Context) {
	if n, err := w.Node.get(); err == nil && n != nil {
		w.pressure.On = slices.ContainsFunc(n.Status.Conditions, objects.UnderDiskPressure)
	}
	for ctx.Err() == nil {
		disk, err := statDisk(w.Root)
		if err != nil {
			w.Logger.Warn("cannot read disk usage", "path", w.Root, "error", err)
		} else {
			w.look(ctx, disk, time.Now())
		}
		period := diskPeriod
		switch {
		case len(w.Thresholds) == 0 && !w.pressure.On:
			return // there are no thresholds, and nothing is left of an earlier run
		case w.pressure.On || eviction.Near(w.Thresholds, disk):
			period = diskPeriodNear
		}
		select {
		case <-ctx.Done():
		case <-time.After(period):
		}
	}
}

// look does what the present state of the disk requires.
func (w *Pressure) look(ctx context.Context, disk eviction.Disk, now time.Time) {
	short, is := eviction.Short(w.Thresholds, disk)
	changed := w.pressure.See(is, now, w.Transition)
	w.note(short, is, now)
	show := func(n *corev1.Node) { showDiskPressure(n, w.pressure.On, now) }
	if err := w.Node.update(ctx, show); err != nil && ctx.Err() == nil {
		w.Logger.Warn("cannot show in the status of the node how full the disk is", "error", err)
	}
	if changed {
		status, says := "NodeHasNoDiskPressure", "the disk has room again, new pods may start"
		if w.pressure.On {
			status, says = "NodeHasDiskPressure", "the disk is nearly full, no new pods start"
			w.Node.tell(ctx, corev1.EventTypeWarning, "EvictionThresholdMet",
				"Attempting to reclaim "+string(short.Signal.Resource()))
		}
		w.Logger.Warn(says, "available", disk.Available.Bytes, "inodesFree", disk.Available.Inodes)
		w.Node.tell(ctx, corev1.EventTypeNormal, status, fmt.Sprintf("Node %s status is now: %s", w.Node.name, status))
	}
	if is && !w.waits(now, func(p *corev1.Pod) bool { return w.Pods.holds(ctx, p) }) {
		w.relieve(ctx, now)
	}
}

// Shortage is why a Node is under disk pressure.
type Shortage struct {
	On bool
	// Short says that too little is free now, and not only that it was.
	Short bool
	// What says of what, and how much: empty if that was before this start.
	What string
	// Seen is when it was seen last, Until until when the pressure lasts if it is not seen again.
	Seen, Until time.Time
}

// Shortage returns why the Node is, or was at the last look, under pressure.
func (w *Pressure) Shortage() Shortage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shown
}

// note keeps for others what a look at the disk has shown.
func (w *Pressure) note(short eviction.Shortage, is bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown.On, w.shown.Short = w.pressure.On, is
	switch {
	case is:
		w.shown.What = short.String()
		w.shown.Seen = now
	case !w.pressure.On:
		w.shown = Shortage{}
	case w.shown.Seen.IsZero():
		w.shown.Seen = now
	}
	if w.shown.On {
		w.shown.Until = w.shown.Seen.Add(w.Transition)
	}
}

// waits reports whether the last measure may still take effect.
func (w *Pressure) waits(now time.Time, holds func(*corev1.Pod) bool) bool {
	if w.going != nil && now.Sub(w.since) < evictionPatience && holds(w.going) {
		// After the pod has ended the disk needs time to show it: files are removed in the background, and some file
		// systems report it late.
		w.next = now.Add(diskPeriod)
	}
	return now.Before(w.next)
}

// relieve frees space: by removing images if that suffices, otherwise by evicting a pod.
func (w *Pressure) relieve(ctx context.Context, now time.Time) {
	w.next = now.Add(diskPeriod)
	if w.dropFiles(now) {
		return // the next measure shows the space
	}
	w.Images.reclaim(ctx)
	disk, err := statDisk(w.Root)
	if err != nil {
		w.Logger.Warn("cannot read disk usage", "path", w.Root, "error", err)
		return
	}
	if short, is := eviction.Short(w.Thresholds, disk); is {
		uses, err := w.uses(ctx)
		if err != nil {
			w.Logger.Warn("cannot measure what pods take of the disk", "error", err)
			return
		}
		victim, why := eviction.First(uses, short)
		if victim == nil || ctx.Err() != nil {
			return
		}
		w.Logger.Warn("evicted a pod for want of disk", "pod", victim.Namespace+"/"+victim.Name, "reason", why)
		w.going, w.since = victim, now
		w.Report([]duty.Observation{{
			What: duty.Evicted, UID: victim.UID, Namespace: victim.Namespace, Name: victim.Name, At: now, Message: why,
		}})
	}
}

// dropFiles lets pods that have ended keep their files no longer, and reports whether there were any.
func (w *Pressure) dropFiles(now time.Time) bool {
	var dropped []duty.Observation
	err := w.Node.store.View(func(s *store.Snapshot) error {
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
		w.Logger.Warn("cannot read which pods keep their files", "error", err)
	}
	if len(dropped) > 0 {
		w.Logger.Warn("removed the files of pods that have ended, for want of disk", "pods", len(dropped))
		w.Report(dropped)
	}
	return len(dropped) > 0
}

// uses measures the running pods, except the one that was evicted last.
func (w *Pressure) uses(ctx context.Context) ([]eviction.Use, error) {
	var running []*corev1.Pod
	err := w.Node.store.View(func(s *store.Snapshot) error {
		var failed error
		s.Range(objects.Pods+"/", "", func(o store.Object) bool {
			p := &corev1.Pod{}
			if failed = scheme.DecodePart(o.Value, objects.PodOnNode, p); failed == nil && objects.Runs(p) {
				p = &corev1.Pod{}
				failed = objects.Decode(o, p)
				if w.going == nil || w.going.UID != p.UID { // it did not go in time
					running = append(running, p)
				}
			}
			return failed == nil
		})
		return failed
	})
	return w.survey.take(ctx, running), err
}

// showDiskPressure updates the condition of a Node and the taint that belongs to it.
func showDiskPressure(n *corev1.Node, on bool, now time.Time) {
	shown := corev1.NodeCondition{
		Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse,
		Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure",
	}
	if on {
		shown.Status = corev1.ConditionTrue
		shown.Reason, shown.Message = "KubeletHasDiskPressure", "kubelet has disk pressure"
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
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
			Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &added,
		})
	case !on && tainted:
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isTaint)
	}
}
