package pod

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/crash"
)

// tearDownAgain is the first delay after a tear-down that failed; it doubles up to a minute.
const tearDownAgain = time.Second

// tearDown removes a pod's containers and undoes its steps in reverse. It tries again until it succeeds.
func (w *Workers) tearDown(pod *corev1.Pod, p *worker) {
	ok := true
	for _, id := range append(w.held(pod), p.leftovers...) {
		crash.At("tear-down.container.before")
		if err := w.config.Runtime.Remove(w.ctx, id); err != nil {
			w.log(pod).Warn("remove container", "container", id, "error", err)
			ok = false
		}
	}
	if ok {
		for _, step := range slices.Backward(w.config.Steps) {
			crash.At("tear-down", step.Name, "before")
			if err := step.TearDown(w.ctx, pod.UID); err != nil {
				w.log(pod).Warn("undo pod set-up", "step", step.Name, "error", err)
				ok = false
			}
			crash.At("tear-down", step.Name, "after")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.held(pod) {
		w.unwatch(id) // its end was not reported, or too early
	}
	if w.ctx.Err() != nil {
		return
	}
	if !ok {
		delay := min(tearDownAgain<<min(p.failed, 6), time.Minute)
		p.failed++
		time.AfterFunc(delay, func() { w.Do(pod, []Action{{Kind: TearDown}}) })
		return
	}
	if len(p.queue) == 0 {
		delete(w.pods, pod.UID)
	} else {
		p.sandbox, p.leftovers, p.failed = nil, nil, 0
	}
	// The end of one that is being deleted is waited for.
	w.report(pod, Observation{What: TornDown, Later: pod.DeletionTimestamp == nil})
	crash.At("tear-down.reported")
}

// held are the containers of the pod that the runtime may hold: the newest attempt of each, and the one after it.
// Older ones are removed before a newer one starts.
func (w *Workers) held(pod *corev1.Pod) []string {
	var ids []string
	containers(pod, func(c container) bool {
		attempt := 0
		if c.status != nil {
			attempt = int(c.status.RestartCount)
		}
		ids = append(ids, containerID(pod, c.spec.Name, attempt), containerID(pod, c.spec.Name, attempt+1))
		return true
	})
	return ids
}
