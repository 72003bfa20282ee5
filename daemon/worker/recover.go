package worker

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
)

// Recover compares what the runtime holds with the stored pods, and returns what happened while the daemon was down:
// containers that have ended, and those that are Lost. It removes what is left of pods that are not among the stored
// ones, or that are done. It is called once, before the first Do.
//
// A start that is not on record is not reported: Next asks for it again, and Start finds it. But with rebooted (the
// host went down since the pods were stored) launches that were due and are not held are Lost too: nobody can tell
// whether they had happened. The caller stores that it knows of the reboot together with the observations.
func (p *Pool) Recover(ctx context.Context, pods iter.Seq2[*corev1.Pod, error], rebooted bool) ([]duty.Observation, error) {
	list, err := p.config.Runtime.Containers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	// What remains in here after the pods were visited is not needed any more.
	held := map[types.UID][]runtime.Status{}
	for _, s := range list {
		uid := types.UID(s.PodUID)
		held[uid] = append(held[uid], s)
	}
	for _, step := range p.config.Steps {
		if step.Held == nil {
			continue
		}
		uids, err := step.Held(ctx)
		if err != nil {
			return nil, fmt.Errorf("list what the step %s has set up: %w", step.Name, err)
		}
		for _, uid := range uids {
			held[uid] = append(held[uid], nil...)
		}
	}

	var seen []duty.Observation
	now := time.Now()
	for obj, err := range pods {
		if err != nil { // nobody can tell what is left of which pod
			return nil, err
		}
		if pod.Done(obj) {
			continue
		}
		mine := held[obj.UID]
		delete(held, obj.UID)
		if !podspec.Ended(obj) {
			seen = append(seen, p.recover(obj, mine, rebooted, now)...)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, statuses := range held {
		gone := &corev1.Pod{}
		gone.UID = uid
		w := &worker{work: &work{pod: gone, queue: []duty.Action{{Kind: duty.TearDown}}}}
		for _, s := range statuses {
			w.leftovers = append(w.leftovers, s.ID)
		}
		p.log(gone).Info("removing the remains of a pod that is gone", "containers", len(statuses))
		p.pods[uid] = w
		p.schedule(w)
	}
	return seen, nil
}

// recover resumes the monitors of one pod's containers and returns what has happened to them.
func (p *Pool) recover(obj *corev1.Pod, held []runtime.Status, rebooted bool, now time.Time) []duty.Observation {
	for _, a := range pod.Newest(obj) {
		id := containerID(obj, a.Container.Name, a.Number)
		i := slices.IndexFunc(held, func(s runtime.Status) bool { return s.ID == id })
		if i < 0 {
			continue
		}
		if held[i].State == runtime.Running {
			p.follow(obj, a.Container, a.Number)
		}
		if a.Running && held[i].State == runtime.Running && !pod.MayBePaused(obj) {
			p.watchAgain(obj, a, held[i])
		}
	}
	seen := pod.Recover(obj, held, rebooted, now)
	for i := range seen {
		if seen[i].Status.State == runtime.Exited {
			if c := podspec.Find(&obj.Spec, seen[i].Container); c != nil {
				seen[i].Status.Message = p.terminationMessage(seen[i].Status, p.tailed(obj, c, seen[i].Attempt))
			}
		}
	}
	return seen
}
