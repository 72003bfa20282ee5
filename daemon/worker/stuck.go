package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

const (
	// patience is how long a step of a pod may hold up other pods, and how long a start that was called off has to come
	// to its end by itself.
	patience = 2 * time.Second
	// stuckTime is how long a step takes before somebody should know.
	stuckTime = 2 * time.Minute
)

// take runs one step of the work for a pod, while its worker holds a slot. A step that takes longer than patience lets
// others have the slot, since what it waits for, a file system or a program, may never answer. A step that takes longer
// than stuckTime is logged, counted and reported, once. name completes "cannot get on with ...".
func (p *Pool) take(obj *corev1.Pod, w *worker, name string, do func()) {
	began := time.Now()
	p.begin(w, step{name, began})
	stuck := time.AfterFunc(stuckTime, func() {
		p.stuck.Add(1)
		since := began.UTC().Format(time.RFC3339)
		p.log(obj).Warn("pod is stuck in a step", "step", name, "since", since)
		p.report(obj, duty.Observation{
			What: duty.Stuck, Reason: "StuckStep", Message: fmt.Sprintf("Stuck in %s since %s", name, since),
		})
	})
	w.slot.Hold(do)
	p.begin(w, step{})
	if !stuck.Stop() {
		p.stuck.Add(-1)
		p.log(obj).Info("pod is no longer stuck in a step", "step", name, "took", time.Since(began))
	}
}

// Stuck returns how many steps of pods have been under way for more than two minutes.
func (p *Pool) Stuck() int { return int(p.stuck.Load()) }

// giveUpLate gives up the start of a container that hangs although its launch was called off, until stop is called.
func (p *Pool) giveUpLate(obj *corev1.Pod, l *launch, id string) (stop func()) {
	began := time.Now()
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan struct{})
	unhook := context.AfterFunc(l.ctx, func() {
		defer close(done)
		// It may not have reached the runtime yet, so once need not be enough.
		for wait := patience - time.Since(began); pause(ctx, wait) && p.calledOff(l); wait = patience {
			err := p.config.Runtime.CallOff(ctx, id)
			if errdefs.IsNotImplemented(err) {
				return // a shard of an older version
			}
			if err != nil && ctx.Err() == nil && !errdefs.IsNotFound(err) && !errdefs.IsFailedPrecondition(err) {
				p.log(obj).Warn("cannot call off the start of a container", "container", l.container, "error", err)
			}
		}
	})
	return func() {
		cancel()
		if !unhook() {
			<-done
		}
	}
}
