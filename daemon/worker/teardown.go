package worker

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime/crash"
)

const (
	// tearDownAgain is the delay after the first tear-down that failed; it doubles up to a minute.
	tearDownAgain = time.Second
	// tearDownSaid is how many tear-downs fail before people are told in an event, since most obstacles go by
	// themselves. They are told again whenever this has doubled.
	tearDownSaid = 4
)

// tearDown removes a pod's containers and undoes its steps in reverse order. If anything fails, all of it is tried
// again later, for as long as it takes: what is left on the host belongs to the pod.
func (p *Pool) tearDown(obj *corev1.Pod, w *worker) {
	p.pace.took(obj.Namespace, obj.UID, 0) // it is not measured any more
	var failed []string
	for _, id := range append(p.held(obj), w.leftovers...) {
		crash.At("tear-down.container.before")
		var err error
		p.take(obj, w, "removal of container "+id, func() { err = p.config.Runtime.Remove(p.ctx, id) })
		if err != nil {
			p.log(obj).Warn("cannot remove a container, which is retried", "container", id, "error", err)
			failed = append(failed, fmt.Sprintf("cannot remove container %s: %v", id, err))
		}
	}
	if len(failed) == 0 {
		for _, step := range slices.Backward(p.config.Steps) {
			crash.At("tear-down", step.Name, "before")
			var err error
			p.take(obj, w, "tear-down of "+step.Name, func() {
				if step.Leave != nil {
					step.Leave(p.ctx, obj)
				}
				err = step.TearDown(p.ctx, obj.UID)
			})
			if err != nil {
				p.log(obj).Warn("cannot undo the set-up of a pod, which is retried", "step", step.Name, "error", err)
				failed = append(failed, fmt.Sprintf("cannot undo %s: %v", step.Name, err))
			}
			crash.At("tear-down", step.Name, "after")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range p.held(obj) {
		// Its end was not reported, or too early.
		p.unwatch(id)
		delete(p.tails, id)
	}
	if p.ctx.Err() != nil {
		return
	}
	if len(failed) > 0 {
		delay := min(tearDownAgain<<min(w.failed, 6), time.Minute)
		w.failed++
		if w.failed >= tearDownSaid && bits.OnesCount(uint(w.failed)) == 1 {
			p.report(obj, duty.Observation{
				What: duty.Stuck, Reason: "FailedKillPod", Later: true,
				Message: fmt.Sprintf("Tear-down has failed %d times and is retried: %s", w.failed, strings.Join(failed, "; ")),
			})
		}
		time.AfterFunc(delay, func() { p.Do(obj, []duty.Action{{Kind: duty.TearDown}}) })
		return
	}
	if len(w.queue) == 0 {
		delete(p.pods, obj.UID)
	} else {
		w.sandbox, w.leftovers, w.failed = nil, nil, 0
	}
	// Somebody waits for the end of a pod that is being deleted.
	p.report(obj, duty.Observation{What: duty.TornDown, Later: obj.DeletionTimestamp == nil})
	crash.At("tear-down.reported")
}

// held returns the IDs of the containers that the runtime may hold for a pod: the newest attempt of each on record, and
// the next one. Older ones were removed before that was started.
func (p *Pool) held(obj *corev1.Pod) []string {
	var ids []string
	for c := range podspec.Containers(&obj.Spec) {
		attempt := 0
		if s := podspec.ContainerStatus(obj, c.Name); s != nil {
			attempt = int(s.RestartCount)
		}
		ids = append(ids, containerID(obj, c.Name, attempt), containerID(obj, c.Name, attempt+1))
	}
	return ids
}
