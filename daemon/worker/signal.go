package worker

import (
	"errors"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime/crash"
)

const (
	// signalTries is how often a signal is sent that could not be, and signalAgain is the delay between two tries.
	signalTries = 5
	signalAgain = time.Second
)

// sendSignal sends the signal that announces the end of a pod to its containers. Each gets it once, even if an earlier daemon was
// killed while it was at that.
func (p *Pool) sendSignal(obj *corev1.Pod, a duty.Action) {
	if obj.DeletionTimestamp != nil { // one that is frozen could not act on it before it is stopped
		if err := p.freeze(obj, false); err != nil {
			p.log(obj).Warn("cannot let a pod go on that is to be told of its end", "error", err)
		}
	}
	var failed error
	for try := 0; try < signalTries && pause(p.ctx, time.Duration(min(try, 1))*signalAgain); try++ {
		failed = nil
		for _, c := range pod.Signals(obj, a.Due) {
			err := p.config.Runtime.SignalOnce(p.ctx, containerID(obj, c.Container.Name, c.Number), a.Signal)
			if err != nil && !errdefs.IsNotFound(err) { // one that is not found has just ended
				failed = errors.Join(failed, err)
			}
		}
		crash.At("signal.sent")
		if failed == nil {
			break
		}
	}
	if p.ctx.Err() != nil {
		return
	}
	o := duty.Observation{What: duty.SignalSent, OK: failed == nil}
	if failed != nil {
		o.Message = failed.Error()
	}
	p.report(obj, o)
}
