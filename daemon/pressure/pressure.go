// Package pressure keeps what all pods share, the disk and the memory, from running out: it shows on the Node that little is
// left, which keeps new pods away, lets go of what nobody needs, and then evicts one pod after the other.
//
// Figures of the machine and of the running pods come in. What goes out are evictions, which it reports to the control
// loop, a part of the Node object, and events about the Node. It runs beside the control loop.
package pressure

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/eviction"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

const (
	// What is left is measured as often as by a kubelet, and more often when it is little; each time is a system call or two.
	period, periodNear = 10 * time.Second, time.Second
	// patience is how long to wait for an evicted pod to go before the next one is evicted.
	patience = 30 * time.Second
)

// Resource is something that pods share and that may run out. Its methods are called by one goroutine.
type Resource interface {
	// Measure returns how much there is, and how much is left.
	Measure() (eviction.Supply, error)
	// Reclaim frees what nobody needs. It reports whether the next measure is to show what came of it before a pod is evicted.
	Reclaim(ctx context.Context, now time.Time) (wait bool)
	// Uses returns what each of some pods uses.
	Uses(ctx context.Context, pods []*corev1.Pod) []eviction.Use
	// Holds reports whether a pod still uses any.
	Holds(ctx context.Context, p *corev1.Pod) bool
}

// Options are what a Watch needs.
type Options struct {
	Resource   Resource
	Name       string // what it is: "disk"
	Condition  Condition
	Thresholds []eviction.Threshold
	// Transition is for how long the pressure is shown after little was left last.
	Transition time.Duration
	Node       *Node
	// Report tells the control loop that a pod is evicted.
	Report func([]duty.Observation)
	Logger *slog.Logger
}

// Watch watches over a Resource.
type Watch struct {
	Options

	mu       sync.Mutex // protects shown
	shown    Shortage
	pressure eviction.Pressure
	next     time.Time   // when the next measure may be taken
	going    *corev1.Pod // the pod that was evicted last
	since    time.Time
}

// New makes a Watch that does nothing until it runs.
func New(o Options) *Watch { return &Watch{Options: o} }

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	if n, err := w.Node.get(); err == nil && n != nil {
		w.pressure.On = w.Condition.shown(n)
	}
	for ctx.Err() == nil {
		if len(w.Thresholds) == 0 && !w.pressure.On {
			return // there is nothing to look for, and nothing is left of an earlier run
		}
		supply, err := w.Resource.Measure()
		if err != nil {
			w.Logger.Warn("cannot measure how much is left", "of", w.Name, "error", err)
		} else {
			w.look(ctx, supply, time.Now())
		}
		wait := period
		if w.pressure.On || eviction.Near(w.Thresholds, supply) {
			wait = periodNear
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// look does what the present state requires.
func (w *Watch) look(ctx context.Context, supply eviction.Supply, now time.Time) {
	short, is := eviction.Short(w.Thresholds, supply)
	changed := w.pressure.See(is, now, w.Transition)
	w.note(short, is, now)
	show := func(n *corev1.Node) { w.Condition.show(n, w.pressure.On, now) }
	if err := w.Node.Update(ctx, show); err != nil && ctx.Err() == nil {
		w.Logger.Warn("cannot show in the status of the node how much is left", "of", w.Name, "error", err)
	}
	if changed {
		status, says := w.Condition.Fine, "there is room again, new pods may start"
		if w.pressure.On {
			status, says = w.Condition.Short, "nearly nothing is left, no new pods start"
			w.Node.Tell(ctx, corev1.EventTypeWarning, "EvictionThresholdMet",
				"Attempting to reclaim "+string(short.Signal.Resource()))
		}
		w.Logger.Warn(says, "of", w.Name, "available", supply.Available.Bytes, "inodesFree", supply.Available.Inodes)
		w.Node.Tell(ctx, corev1.EventTypeNormal, status, fmt.Sprintf("Node %s status is now: %s", w.Node.name, status))
	}
	if is && !w.waits(now, func(p *corev1.Pod) bool { return w.Resource.Holds(ctx, p) }) {
		w.relieve(ctx, now)
	}
}

// Shortage is why a Node is under pressure.
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
func (w *Watch) Shortage() Shortage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shown
}

// note keeps for others what a look has shown.
func (w *Watch) note(short eviction.Shortage, is bool, now time.Time) {
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
func (w *Watch) waits(now time.Time, holds func(*corev1.Pod) bool) bool {
	if w.going != nil && now.Sub(w.since) < patience && holds(w.going) {
		// After the pod has ended it needs time to show: files are removed in the background, and some file systems
		// report it late.
		w.next = now.Add(period)
	}
	return now.Before(w.next)
}

// relieve frees what nobody needs, and if that does not suffice evicts a pod.
func (w *Watch) relieve(ctx context.Context, now time.Time) {
	w.next = now.Add(period)
	if w.Resource.Reclaim(ctx, now) {
		return
	}
	supply, err := w.Resource.Measure()
	if err != nil {
		w.Logger.Warn("cannot measure how much is left", "of", w.Name, "error", err)
		return
	}
	short, is := eviction.Short(w.Thresholds, supply)
	if !is {
		return
	}
	running, err := w.running()
	if err != nil {
		w.Logger.Warn("cannot read which pods run", "error", err)
		return
	}
	victim, why := eviction.First(w.Resource.Uses(ctx, running), short)
	if victim == nil || ctx.Err() != nil {
		return
	}
	w.Logger.Warn("evicted a pod for want of "+w.Name, "pod", victim.Namespace+"/"+victim.Name, "reason", why)
	w.going, w.since = victim, now
	w.Report([]duty.Observation{{
		What: duty.Evicted, UID: victim.UID, Namespace: victim.Namespace, Name: victim.Name, At: now, Message: why,
	}})
}

// running returns the running pods, except the one that was evicted last.
func (w *Watch) running() (running []*corev1.Pod, err error) {
	err = w.Node.store.View(func(s *store.Snapshot) error {
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
	return running, err
}
