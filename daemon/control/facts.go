package control

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/pod"
)

// holdersNamed bounds how many of those that hold what a pod waits for are looked up.
const holdersNamed = 100

// Facts are what the records of the loop say about some pods beyond what is stored.
type Facts struct {
	// Node is the name of this machine.
	Node string
	// Claims are the claims that pods wait for.
	Claims map[types.UID]ClaimWait
	// Rooms are what waiting pods wait for. Of the pods of a Job it is only the first in the queue.
	Rooms map[types.UID]node.Room
	// Holders are the keys of pods that hold what others wait for.
	Holders map[types.UID]string
	// Launchings are the launches that have failed.
	Launchings map[types.UID][]pod.Launching
	// Standing is what decisions about the Job depend on; nil if it has ended.
	Standing *job.Standing
}

// ClaimWait is a claim that a pod waits for.
type ClaimWait struct {
	Claim string
	// Why says it in a scheduler's words; empty while the volume is being made.
	Why string
	// Volume is the volume if that is for another machine, User the key of the pod that uses a claim which only one may use.
	Volume, User string
}

// PodFacts returns what the loop knows about a pod.
func (c *Control) PodFacts(ctx context.Context, p *corev1.Pod) (f Facts, err error) {
	err = c.loop.Ask(ctx, func() { f = c.facts([]types.UID{p.UID}) })
	return f, err
}

// JobFacts returns what the loop knows about a Job and its pods.
func (c *Control) JobFacts(ctx context.Context, j *batchv1.Job) (f Facts, err error) {
	err = c.loop.Ask(ctx, func() {
		rec, ok := c.jobs.known[j.UID]
		if !ok {
			return
		}
		var pods []types.UID
		for uid, p := range c.pods.known {
			if p.job == rec {
				pods = append(pods, uid)
			}
		}
		f = c.facts(pods)
		standing := rec.Standing(c.jobs.settings)
		f.Standing = &standing
	})
	return f, err
}

// Places returns the place in the queue of the first waiting pod of each Job, by the Job's UID.
func (c *Control) Places(ctx context.Context) (places map[types.UID]int, err error) {
	err = c.loop.Ask(ctx, func() {
		byKey := c.admission.capacity.Places(func(uid types.UID) string {
			if rec, ok := c.pods.known[uid]; ok && rec.job != nil {
				return rec.job.key
			}
			return ""
		})
		places = make(map[types.UID]int, len(byKey))
		for key, place := range byKey {
			places[c.jobs.byKey[key]] = place
		}
	})
	return places, err
}

// Keys returns the keys of pods that still wait, run or have to be counted, by their UIDs.
func (c *Control) Keys(ctx context.Context, uids []types.UID) (keys map[types.UID]string, err error) {
	keys = make(map[types.UID]string, len(uids))
	err = c.loop.Ask(ctx, func() {
		for _, uid := range uids {
			if rec, ok := c.pods.known[uid]; ok {
				keys[uid] = rec.key
			}
		}
	})
	return keys, err
}

// Live returns the keys of the Jobs that have not finished, and of the pods for which something is left to be done, at most
// max of each. Pods of Jobs that run come first.
func (c *Control) Live(ctx context.Context, max int) (jobs, pods []string, err error) {
	err = c.loop.Ask(ctx, func() {
		for _, rec := range c.jobs.known {
			if len(jobs) < max {
				jobs = append(jobs, rec.key)
			}
		}
		for uid := range c.accounts.pods {
			if rec, ok := c.pods.known[uid]; ok && len(pods) < max {
				pods = append(pods, rec.key)
			}
		}
		for uid, rec := range c.pods.known {
			if len(pods) >= max {
				break
			}
			if c.accounts.pods[uid] == nil {
				pods = append(pods, rec.key)
			}
		}
	})
	return jobs, pods, err
}

// facts returns what the records say about pods of one Job, or a single one.
func (c *Control) facts(pods []types.UID) Facts {
	f := Facts{
		Node: c.admission.name, Claims: map[types.UID]ClaimWait{},
		Rooms: map[types.UID]node.Room{}, Holders: map[types.UID]string{}, Launchings: map[types.UID][]pod.Launching{},
	}
	for _, uid := range pods {
		if rec, ok := c.pods.known[uid]; ok {
			if failed := rec.issued.Launchings(); len(failed) > 0 {
				f.Launchings[uid] = failed
			}
			if _, held := c.admission.held[uid]; held {
				if w, ok := c.admission.claims.waitOf(rec.key); ok {
					f.Claims[uid] = w
				}
			}
		}
	}
	capacity := c.admission.capacity
	first, ok := capacity.First(pods)
	if !ok {
		return f
	}
	room, _ := capacity.Room(first)
	f.Rooms[first] = room
	for _, h := range room.Holders[:min(len(room.Holders), holdersNamed)] {
		if rec, ok := c.pods.known[h.UID]; ok {
			f.Holders[h.UID] = rec.key
		}
	}
	return f
}

// RunningPods returns the pods of a Job that run or are being stopped.
func (c *Control) RunningPods(ctx context.Context, of types.UID) (running []job.Running, err error) {
	err = c.loop.Ask(ctx, func() {
		if rec, ok := c.jobs.known[of]; ok {
			running = rec.Running()
		}
	})
	return running, err
}
