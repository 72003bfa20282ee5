package pod

import (
	"context"
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/runtime"
)

// Recover compares what the runtime holds with the stored pods, once, before the first Do, and returns what a
// restarted daemon has to know: containers that have ended meanwhile, and those that are Lost. What is left of pods
// that are not among them, or that are done, is removed.
//
// A start that is not on record is not reported: Next asks for it again, and Start finds it. But with rebooted (the
// host went down since the pods were stored) launches that were due and are not held are Lost too: nobody can tell
// whether they had happened. The caller stores that it knows of the reboot together with the observations.
func (w *Workers) Recover(ctx context.Context, pods iter.Seq[*corev1.Pod], rebooted bool) ([]Observation, error) {
	list, err := w.config.Runtime.Containers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	// What is not taken out of these is not needed any more.
	held := map[types.UID][]runtime.Status{}
	for _, s := range list {
		uid := types.UID(s.PodUID)
		held[uid] = append(held[uid], s)
	}
	for _, step := range w.config.Steps {
		if step.Held == nil {
			continue
		}
		uids, err := step.Held(ctx)
		if err != nil {
			return nil, fmt.Errorf("what is set up by %s: %w", step.Name, err)
		}
		for _, uid := range uids {
			held[uid] = append(held[uid], nil...)
		}
	}

	var seen []Observation
	now := time.Now()
	for pod := range pods {
		if Done(pod) {
			continue
		}
		mine := held[pod.UID]
		delete(held, pod.UID)
		if !Terminal(pod) {
			seen = append(seen, w.recover(pod, mine, rebooted, now)...)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, statuses := range held {
		gone := &corev1.Pod{}
		gone.UID = uid
		p := &worker{pod: gone, queue: []Action{{Kind: TearDown}}}
		for _, s := range statuses {
			p.leftovers = append(p.leftovers, s.ID)
		}
		w.log(gone).Info("removing what is left of a pod that is gone", "containers", len(statuses))
		w.pods[uid] = p
		w.schedule(p)
	}
	return seen, nil
}

// recover says what happened to the containers of one pod.
func (w *Workers) recover(pod *corev1.Pod, held []runtime.Status, rebooted bool, now time.Time) []Observation {
	var seen []Observation
	see := func(o Observation) {
		o.UID, o.Namespace, o.Name, o.At = pod.UID, pod.Namespace, pod.Name, now
		seen = append(seen, o)
	}
	find := func(container string, attempt int) (runtime.Status, bool) {
		id := containerID(pod, container, attempt)
		for _, s := range held {
			if s.ID == id {
				return s, true
			}
		}
		return runtime.Status{}, false
	}
	_, ending := stopping(pod, now)
	if _, ok := winding(pod); ok {
		ending = true
	}
	if _, ok := restartsAll(pod); ok {
		ending = true
	}
	containers(pod, func(c container) bool {
		if c.status == nil {
			return true
		}
		attempt := int(c.status.RestartCount)
		known := c.running()
		if !known {
			attempt = c.next()
		}
		s, ok := find(c.spec.Name, attempt)
		if ok && w.config.LogPath != nil {
			w.follow(c.spec, s.ID, w.config.LogPath(pod, c.spec.Name, attempt))
		}
		o := Observation{What: Lost, Container: c.spec.Name, Attempt: attempt, Status: s}
		switch {
		case !ok && known:
			see(o)
		case !ok || !known && !ending:
		case s.State == runtime.Running && !known:
			o.What = Started
			see(o)
		case s.State == runtime.Running:
			w.watchAgain(pod, c, s)
		case s.State == runtime.Exited:
			o.What = Exited
			o.Status.Message = w.terminationMessage(s)
			see(o)
		case known || s.State == runtime.Lost:
			see(o)
		}
		return true
	})
	if rebooted {
		due, _ := next(&planner{pod: pod, issued: &Issued{}, now: now, doubt: true})
		for _, a := range due {
			if _, ok := find(a.Container, a.Attempt); !ok && a.Kind == Launch {
				see(Observation{What: Lost, Container: a.Container, Attempt: a.Attempt})
			}
		}
	}
	return seen
}
