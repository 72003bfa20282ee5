package daemon

import (
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/store"
)

// budget is how many objects a pass writes before it leaves the rest to the next one, so that nobody else waits long
// for the store, and what it holds in memory is bounded. It reads no more than twice as many.
const budget = 1000

// pass is one turn of the loop: one transaction that takes in what has happened, decides what follows from it until
// nothing more does, and writes all of it.
type pass struct {
	*loop
	tx       *store.Tx
	now      time.Time
	jobs     *view[*batchv1.Job]
	pods     *view[*corev1.Pod]
	cronJobs *view[*batchv1.CronJob]

	observed map[types.UID][]pod.Observation
	found    map[types.UID]bool // by exists
	effects  []effect
	figures  figures
	written  int
	decoded  int // objects that are held until the pass ends
	// exhausted says that the budget was used up before everything was looked at.
	exhausted bool
	version   uint64 // of the last write
}

// effect is what is to be done outside the store once the pass is durable.
type effect struct {
	pod     *corev1.Pod
	actions []pod.Action
	// forget says that the pod's object is gone, forgetJob that a Job's is.
	forget    bool
	forgetJob types.UID
}

func (l *loop) newPass(tx *store.Tx, now time.Time) *pass {
	p := &pass{loop: l, tx: tx, now: now, version: tx.Version(), found: map[types.UID]bool{}}
	p.jobs = newView(p, jobs, newJob)
	p.cronJobs = newView(p, cronJobs, newCronJob)
	p.pods = newView(p, pods, newPod)
	return p
}

// run does it all. After an error nothing was written, while the records may have run ahead.
func (p *pass) run(reports [][]pod.Observation) error {
	if err := p.fold(); err != nil {
		return err
	}
	if err := p.observe(reports); err != nil {
		return err
	}
	if err := p.due(); err != nil {
		return err
	}
	if err := p.settle(); err != nil {
		return err
	}
	p.records.noteWaits(p.now)
	if p.newEpoch != "" {
		p.version = p.tx.Put(store.Object{Key: epochKey, Value: []byte(p.newEpoch)})
	}
	if err := p.pods.Flush(); err != nil {
		return err
	}
	if err := p.jobs.Flush(); err != nil {
		return err
	}
	return p.cronJobs.Flush()
}

// observe gives the observations to their pods.
func (p *pass) observe(reports [][]pod.Observation) error {
	p.observed = make(map[types.UID][]pod.Observation, len(reports))
	for _, report := range reports {
		for len(report) > 0 { // most are about one pod: no need to copy them
			uid, n := report[0].UID, 1
			for n < len(report) && report[n].UID == uid {
				n++
			}
			if before, ok := p.observed[uid]; ok {
				p.observed[uid] = append(before, report[:n]...)
			} else {
				p.observed[uid] = report[:n:n]
			}
			report = report[n:]
			if rec, ok := p.records.pods[uid]; ok {
				p.records.dirtyPods.add(rec.key)
			}
		}
	}
	return nil
}

// unsettled gives the observations that the pass did not come to, of pods that are still of interest.
func (p *pass) unsettled() (rest [][]pod.Observation) {
	for uid, o := range p.observed {
		if p.records.pods[uid] != nil {
			rest = append(rest, o)
		}
	}
	return rest
}

// due looks at what time has made due, as much as one pass should take on.
func (p *pass) due() error {
	for _, k := range p.records.due.Due(p.now, budget) {
		switch k.what {
		case duePod:
			p.records.dirtyPods.add(k.key)
		case dueJob:
			if uid, ok := p.records.byKey[k.key]; ok {
				p.records.dirtyJobs.add(uid)
			}
		case dueTTL:
			if err := p.expire(k.key); err != nil {
				return err
			}
		case dueCronJob:
			p.records.crons.dirty.add(k.key)
		case dueEmptying:
			p.records.emptying.add(k.key)
		case dueMeasure:
			if err := p.measureDisk(k.key); err != nil {
				return err
			}
		case dueTokens:
			if err := p.renewTokens(k.key); err != nil {
				return err
			}
		case dueSweep:
			p.sweep()
		case dueTaint:
			p.records.tainted.add(k.key)
		case dueWaits:
			if err := p.tellWaits(); err != nil {
				return err
			}
		}
	}
	return nil
}

// spent tells that the pass should leave the rest to the next one.
func (p *pass) spent() bool { return p.written >= budget || p.decoded >= 2*budget }

// settle decides until nothing more follows, or the budget is used up. What is known first of pods comes before
// decisions about Jobs, so that those see all of it.
func (p *pass) settle() error {
	for !p.spent() {
		var err error
		if !p.records.nodeShown {
			err = p.showNode()
		} else if name, ok := p.records.furnishing.take(); ok {
			err = p.furnish(name)
		} else if key, ok := p.records.refresh.take(); ok {
			err = p.refresh(key)
		} else if key, ok := p.records.dirtyPods.take(); ok {
			err = p.settlePod(key)
		} else if uid, ok := p.records.collect.take(); ok {
			err = p.collect(uid)
		} else if key, ok := p.records.abandoned.take(); ok {
			err = p.checkOwners(key)
		} else if uid, ok := p.records.dirtyJobs.take(); ok {
			err = p.settleJob(uid)
		} else if key, ok := p.records.crons.dirty.take(); ok {
			err = p.settleCronJob(key)
		} else if key, ok := p.records.deleting.take(); ok {
			err = p.settleDeletion(key)
		} else if name, ok := p.records.emptying.take(); ok {
			err = p.emptyNamespace(name)
		} else if key, ok := p.records.tainted.take(); ok {
			err = p.expel(key)
		} else if step, ok := p.records.node.Next(); ok {
			err = p.admit(step)
		} else {
			return nil
		}
		if err != nil {
			return err
		}
	}
	p.exhausted = true
	return nil
}

// event records what happened to an object.
func (p *pass) event(about corev1.ObjectReference, component, kind, reason, message string) error {
	e := p.events.Event(about, component, kind, reason, message, p.now)
	if e == nil {
		return nil
	}
	return p.putUntil(store.Key(eventsV1, e.Namespace, e.Name), e, p.now.Add(p.eventTTL))
}

// put writes an object.
func (p *pass) put(key string, obj object) error { return p.putUntil(key, obj, time.Time{}) }

// putUntil writes an object that is to be removed at a time.
func (p *pass) putUntil(key string, obj object, expires time.Time) error {
	obj.SetResourceVersion("")
	value, err := scheme.Encode(obj)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	var owners []string
	for _, o := range obj.GetOwnerReferences() {
		owners = append(owners, string(o.UID))
	}
	o := store.Object{Key: key, UID: string(obj.GetUID()), Owners: owners, Value: value}
	if !expires.IsZero() {
		o.Expires = expires.Unix()
	}
	p.version = p.tx.Put(o)
	p.written++
	return nil
}

// putMemory stores what must be known of a Job's pods that are gone.
func (p *pass) putMemory(j *batchv1.Job, m *job.Memory) error {
	value, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", memoryKey(j), err)
	}
	p.version = p.tx.Put(store.Object{Key: memoryKey(j), UID: string(j.UID), Value: value})
	p.written++
	return nil
}

func (p *pass) delete(key string) {
	o, ok := p.tx.Get(key)
	if !ok {
		return
	}
	p.version, _ = p.tx.Delete(key)
	p.written++
	p.goneFrom(key)
	p.objectGone(o)
}
