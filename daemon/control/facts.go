package control

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/daemon/prospect"
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
	Rooms map[types.UID]prospect.Room
	// Holders are the keys of pods that hold what others wait for, or for which that is kept.
	Holders map[types.UID]string
	// Launchings are the launches that have failed.
	Launchings map[types.UID][]pod.Launching
	// Standing is what decisions about the Job depend on; nil if it has ended.
	Standing *job.Standing
	// Group is what the Job waits for that has no place in its concurrency group; nil if it does not.
	Group *hold.Wait
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
		rec, ok := c.records.jobs.known[j.UID]
		if !ok {
			return
		}
		var pods []types.UID
		for uid := range c.records.queue.podsOf(rec) {
			pods = append(pods, uid)
		}
		f = c.facts(pods)
		standing := rec.Standing(c.config.Settings)
		f.Standing = &standing
		if w, waits := c.records.holds.WaitOf(j.UID); waits {
			f.Group = &w
		}
	})
	return f, err
}

// Places returns the place in the queue of the first waiting pod of each Job, by the Job's UID.
func (c *Control) Places(ctx context.Context) (places map[types.UID]int, err error) {
	err = c.loop.Ask(ctx, func() {
		byKey := c.records.queue.capacity.Places(func(uid types.UID) string {
			if rec, ok := c.records.pods.known[uid]; ok && rec.job != nil {
				return rec.job.key
			}
			return ""
		})
		places = make(map[types.UID]int, len(byKey))
		for key, place := range byKey {
			places[c.records.jobs.byKey[key]] = place
		}
	})
	return places, err
}

// Outlook is what is on the node and what waits for it, with the Jobs of the pods.
type Outlook struct {
	prospect.Outlook
	Jobs map[types.UID]OfJob
	// Groups are the concurrency groups in which Jobs wait or have places, by namespace and name.
	Groups map[[2]string]hold.Line
}

// OfJob is the Job of a pod.
type OfJob struct {
	UID    types.UID
	Key    string
	Window *core.Window // nil for none
}

// Groups returns the concurrency groups in which Jobs wait for a place, by the UIDs of those that do.
func (c *Control) Groups(ctx context.Context, jobs []types.UID) (groups map[types.UID]string, err error) {
	groups = map[types.UID]string{}
	err = c.loop.Ask(ctx, func() {
		for _, uid := range jobs {
			if name, waits := c.records.holds.Group(uid); waits {
				groups[uid] = name
			}
		}
	})
	return groups, err
}

// Outlook returns the pods on the node and the first that wait, that many.
func (c *Control) Outlook(ctx context.Context, most int) (o Outlook, err error) {
	err = c.loop.Ask(ctx, func() {
		o = Outlook{
			Outlook: c.records.queue.capacity.Outlook(most), Jobs: map[types.UID]OfJob{}, Groups: c.records.holds.Lines(),
		}
		for _, pods := range [][]prospect.Outlined{o.Running, o.Waiting} {
			for i := range pods {
				if rec, ok := c.records.pods.known[pods[i].UID]; ok && rec.job != nil {
					o.Jobs[pods[i].UID] = OfJob{c.records.jobs.byKey[rec.job.key], rec.job.key, rec.job.Window()}
				}
			}
		}
	})
	return o, err
}

// Keys returns the keys of pods that still wait, run or have to be counted, by their UIDs.
func (c *Control) Keys(ctx context.Context, uids []types.UID) (keys map[types.UID]string, err error) {
	keys = make(map[types.UID]string, len(uids))
	err = c.loop.Ask(ctx, func() {
		for _, uid := range uids {
			if rec, ok := c.records.pods.known[uid]; ok {
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
		for _, rec := range c.records.jobs.known {
			if len(jobs) < max {
				jobs = append(jobs, rec.key)
			}
		}
		for uid := range c.records.ledger.Running() {
			if rec, ok := c.records.pods.known[uid]; ok && len(pods) < max {
				pods = append(pods, rec.key)
			}
		}
		for uid, rec := range c.records.pods.known {
			if len(pods) >= max {
				break
			}
			if !c.records.ledger.Runs(uid) {
				pods = append(pods, rec.key)
			}
		}
	})
	return jobs, pods, err
}

// facts returns what the records say about pods of one Job, or a single one.
func (c *Control) facts(pods []types.UID) Facts {
	f := Facts{
		Node: c.records.queue.name, Claims: map[types.UID]ClaimWait{},
		Rooms: map[types.UID]prospect.Room{}, Holders: map[types.UID]string{}, Launchings: map[types.UID][]pod.Launching{},
	}
	for _, uid := range pods {
		if rec, ok := c.records.pods.known[uid]; ok {
			if failed := rec.issued.Launchings(); len(failed) > 0 {
				f.Launchings[uid] = failed
			}
			if _, held := c.records.queue.held[uid]; held {
				if w, ok := c.records.claims.WaitOf(rec.key); ok {
					f.Claims[uid] = ClaimWait{w.Claim, w.Why, w.Volume, c.records.pods.keyOf(w.User)}
				}
			}
		}
	}
	capacity := c.records.queue.capacity
	first, ok := capacity.First(pods)
	if !ok {
		return f
	}
	room, _ := capacity.Room(first)
	f.Rooms[first] = room
	for _, h := range room.Holders[:min(len(room.Holders), holdersNamed)] {
		if rec, ok := c.records.pods.known[h.UID]; ok {
			f.Holders[h.UID] = rec.key
		}
	}
	if room.Kept != nil {
		if rec, ok := c.records.pods.known[room.Kept.First]; ok {
			f.Holders[room.Kept.First] = rec.key
		}
	}
	return f
}

// RunningPods returns the pods of a Job that run or are being stopped.
func (c *Control) RunningPods(ctx context.Context, of types.UID) (running []job.Running, err error) {
	err = c.loop.Ask(ctx, func() {
		if rec, ok := c.records.jobs.known[of]; ok {
			running = rec.Running()
		}
	})
	return running, err
}
