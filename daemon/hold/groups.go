package hold

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Gate knows which Jobs may not start yet, since their group has no place for them.
type Gate struct{ waits map[types.UID]*member }

// NewGate returns one that holds back nobody.
func NewGate() *Gate { return &Gate{map[types.UID]*member{}} }

// Holds reports whether a Job is to wait.
func (g *Gate) Holds(uid types.UID) bool { return g.waits[uid] != nil }

// groups are the concurrency groups, by namespace and name, and who is in them.
type groups struct {
	*Gate
	// ofNamespaces are the groups of Jobs that name none.
	ofNamespaces map[string]core.Concurrency
	all          map[groupKey]*group
	places       map[types.UID]*holder
	// owners have the UIDs of those of the places whose pods have outlived their Job, by the keys of the pods.
	owners map[string]types.UID

	arrivals *loop.Queue[types.UID] // they are in waits, and not in a group yet
	begun    *loop.Queue[string]    // Jobs, by key, that have begun before they came into a group, or went into another
	ended    *loop.Queue[types.UID] // places that may be free
	dirty    *loop.Queue[groupKey]
}

type groupKey struct{ namespace, name string }

func newGroups(gate *Gate) groups {
	return groups{
		Gate: gate, ofNamespaces: map[string]core.Concurrency{}, all: map[groupKey]*group{}, places: map[types.UID]*holder{},
		owners: map[string]types.UID{}, arrivals: loop.NewQueue[types.UID](), begun: loop.NewQueue[string](), ended: loop.NewQueue[types.UID](),
		dirty: loop.NewQueue[groupKey](),
	}
}

// rebuild reads the places.
func (g *groups) rebuild(s *store.Snapshot) (err error) {
	s.Range(objects.Places+"/", "", func(o store.Object) bool {
		h := &holder{}
		if err = json.Unmarshal(o.Value, h); err != nil {
			err = fmt.Errorf("%s: %w", o.Key, err)
			return false
		}
		g.take(types.UID(o.UID), h)
		g.ended.Add(types.UID(o.UID))
		return true
	})
	return err
}

// setNamespace takes in the group of a namespace, and reports whether that has changed.
func (g *groups) setNamespace(name string, annotations map[string]string) bool {
	before, had := g.ofNamespaces[name]
	c, has := core.NamespaceConcurrency(name, annotations)
	if has {
		g.ofNamespaces[name] = c
	} else {
		delete(g.ofNamespaces, name)
	}
	return had != has || before != c
}

// of returns the group that a Job is to be in.
func (g *groups) of(j *batchv1.Job) (core.Concurrency, bool) {
	if c, ok := core.ConcurrencyOf(j.Annotations); ok {
		return c, true
	}
	c, ok := g.ofNamespaces[j.Namespace]
	return c, ok
}

// at returns a group, and makes it if there is none.
func (g *groups) at(key groupKey) *group {
	of := g.all[key]
	if of == nil {
		of = newGroup()
		g.all[key] = of
	}
	return of
}

// tidy forgets a group that has neither members nor places.
func (g *groups) tidy(key groupKey) {
	if of := g.all[key]; of != nil && len(of.uids) == 0 && len(of.holders) == 0 {
		delete(g.all, key)
	}
}

// take takes in a place as it is stored.
func (g *groups) take(uid types.UID, h *holder) {
	g.places[uid] = h
	g.at(groupKey{h.Namespace, h.Group}).holders[string(uid)] = h
}

// note takes in a Job as it now is. Without a group, and a place, it costs a look at its annotations.
func (g *groups) note(key string, j *batchv1.Job) {
	if h := g.places[j.UID]; h != nil {
		if h.ending = batch.Ending(&j.Status) != nil || j.DeletionTimestamp != nil; !batch.Placed(j) && !batch.Unplaced(j) {
			g.ended.Add(j.UID)
		}
		switch c, ok := g.of(j); {
		case !ok || c.Group != h.Group: // it is in another group now, or in none
			g.begun.Add(key)
		case c.Limit != h.Limit:
			h.Limit = c.Limit
			g.dirty.Add(groupKey{h.Namespace, h.Group})
		}
		return
	}
	c, ok := g.of(j)
	switch {
	case !ok || !batch.Unplaced(j):
		g.leave(j.UID)
		if ok && batch.Placed(j) && batch.Ending(&j.Status) == nil && j.Status.StartTime != nil {
			g.begun.Add(key)
		}
	default:
		m := newMember(key, j, c)
		if was := g.waits[j.UID]; was != nil && was.Concurrency == m.Concurrency && was.ahead.Equal(m.ahead) && was.key == key {
			return
		}
		g.leave(j.UID)
		g.waits[j.UID] = m
		g.arrivals.Add(j.UID)
	}
}

func newMember(key string, j *batchv1.Job, c core.Concurrency) *member {
	return &member{Concurrency: c, key: key, ahead: batch.Prioritized(j.Annotations), created: j.CreationTimestamp.Time}
}

// leave takes in that a Job waits for no place.
func (g *groups) leave(uid types.UID) {
	m := g.waits[uid]
	if m == nil {
		return
	}
	delete(g.waits, uid)
	namespace, _ := objects.NameOf(m.key)
	key := groupKey{namespace, m.Group}
	of := g.all[key]
	if of == nil || of.uids[m] != uid {
		return // it has not come there yet
	}
	of.leave(uid, m)
	g.tidy(key)
	g.dirty.Add(key)
}

// gone takes in that the object of a Job is gone.
func (g *groups) gone(uid types.UID) {
	g.leave(uid)
	if g.places[uid] != nil {
		g.ended.Add(uid)
	}
}

// PodForgotten takes in that nothing is left to be done for a pod.
func (g *groups) podForgotten(key string) {
	uid, ok := g.owners[key]
	if !ok {
		return
	}
	delete(g.owners, key)
	if h := g.places[uid]; h != nil {
		if delete(h.pods, key); len(h.pods) == 0 {
			g.ended.Add(uid)
		}
	}
}

// settleGroups takes one decision about groups, if there is one to take.
func (h *Holds) settleGroups(p *loop.Pass) (bool, error) {
	g := &h.groups
	for _, settle := range []func() (bool, error){
		func() (bool, error) { return g.ended.Settle(func(uid types.UID) error { return g.free(p, uid) }) },
		func() (bool, error) { return g.begun.Settle(func(key string) error { return g.takeBegun(p, key) }) },
		func() (bool, error) { return g.arrivals.Settle(func(uid types.UID) error { return h.arrive(p, uid) }) },
		func() (bool, error) { return g.dirty.Settle(func(key groupKey) error { return h.settleGroup(p, key) }) },
	} {
		if settled, err := settle(); settled || err != nil {
			return settled, err
		}
	}
	return false, nil
}

func (g *groups) isDirty() bool {
	return g.ended.Len()+g.begun.Len()+g.arrivals.Len()+g.dirty.Len() > 0
}

func placeKey(uid types.UID) string { return store.Key(objects.Places, "", string(uid)) }

// free frees a place if nothing holds it any more: neither the Job nor, when that is gone, pods of it that have not ended.
func (g *groups) free(p *loop.Pass, uid types.UID) error {
	h := g.places[uid]
	if h == nil {
		return nil
	}
	j, ok, err := p.Jobs.Peek(store.Key(objects.Jobs, h.Namespace, h.Job))
	if err != nil {
		return err
	}
	if ok && j.UID == uid {
		h.ending = batch.Ending(&j.Status) != nil || j.DeletionTimestamp != nil
		if batch.Placed(j) || batch.Unplaced(j) {
			return nil
		}
	} else if err := g.outlived(p, uid, h); err != nil || len(h.pods) > 0 {
		return err
	}
	g.giveBack(p, uid, h)
	return nil
}

// giveBack frees a place.
func (g *groups) giveBack(p *loop.Pass, uid types.UID, h *holder) {
	p.Delete(placeKey(uid))
	delete(g.places, uid)
	key := groupKey{h.Namespace, h.Group}
	delete(g.all[key].holders, string(uid))
	g.tidy(key)
	g.dirty.Add(key)
}

// outlived looks for the pods of a Job that is gone.
func (g *groups) outlived(p *loop.Pass, uid types.UID, h *holder) (err error) {
	h.alone, h.pods = true, map[string]struct{}{}
	p.Snapshot().Owned(string(uid), store.Key(objects.Pods, h.Namespace, ""), "", func(key string) bool {
		pod, ok, failed := p.Pods.Peek(key)
		if err = failed; ok && err == nil && objects.ControllingJob(pod) == uid && !podspec.Ended(pod) {
			h.pods[key] = struct{}{}
			g.owners[key] = uid
		}
		return err == nil
	})
	return err
}

// put stores a place.
func (g *groups) put(p *loop.Pass, uid types.UID, h *holder) error {
	value, err := json.Marshal(h)
	if err != nil {
		return err
	}
	p.PutStored(store.Object{Key: placeKey(uid), UID: string(uid), Value: value})
	g.take(uid, h)
	return nil
}

func newHolder(key string, c core.Concurrency, now time.Time) *holder {
	namespace, name := objects.NameOf(key)
	return &holder{Namespace: namespace, Group: c.Group, Job: name, Limit: c.Limit, Since: now.UnixNano()}
}

// takeBegun gives a place to a Job that had begun when it came into its group, whether or not there is one. It has that of another
// group no longer.
func (g *groups) takeBegun(p *loop.Pass, key string) error {
	j, ok, err := p.Jobs.Peek(key)
	if err != nil || !ok {
		return err
	}
	c, in := g.of(j)
	if h := g.places[j.UID]; h != nil {
		if in && c.Group == h.Group {
			return nil
		}
		g.giveBack(p, j.UID, h)
	}
	switch {
	case !batch.Placed(j): // it got the other place just now
		g.note(key, j)
		return nil
	case !in:
		return nil
	}
	h := newHolder(key, c, p.Now)
	h.ending = batch.Ending(&j.Status) != nil || j.DeletionTimestamp != nil
	if t := j.Status.StartTime; t != nil && t.UnixNano() < h.Since {
		h.Since = t.UnixNano()
	}
	return g.put(p, j.UID, h)
}

// arrive lets a Job into its group.
func (h *Holds) arrive(p *loop.Pass, uid types.UID) error {
	m := h.groups.waits[uid]
	if m == nil || !p.Works(m.key) {
		return nil
	}
	j, ok, err := p.Jobs.Peek(m.key)
	if err != nil || !ok || j.UID != uid {
		return err
	}
	m.priority = priority(p, &j.Spec.Template.Spec)
	namespace, _ := objects.NameOf(m.key)
	key := groupKey{namespace, m.Group}
	of := h.groups.at(key)
	if of.uids[m] == uid {
		return nil
	}
	of.enter(uid, m)
	h.groups.dirty.Add(key)
	p.Worked(len(of.holders))
	if limit := limitOf(m, of.list()); len(of.holders) >= limit && m.Policy != core.ForbidConcurrent {
		return event(p, j, corev1.EventTypeNormal, "ConcurrencyWaits", fmt.Sprintf("Waits for a place in the concurrency group %s: %s",
			m.Group, taken(len(of.holders), limit)))
	}
	return nil
}

func taken(n, limit int) string { return fmt.Sprintf("%d of %d are taken", n, limit) }

// priority returns that of the pods of a template, as far as it names one.
func priority(p *loop.Pass, spec *corev1.PodSpec) int32 {
	if spec.PriorityClassName == "" {
		if spec.Priority != nil {
			return *spec.Priority
		}
		return 0
	}
	class := &schedulingv1.PriorityClass{}
	if ok, err := objects.Read(p, store.Key("priorityclasses."+schedulingv1.GroupName, "", spec.PriorityClassName), class); err != nil || !ok {
		return 0
	}
	return class.Value
}

// settleGroup does what is to be done next in a group.
func (h *Holds) settleGroup(p *loop.Pass, key groupKey) error {
	g := &h.groups
	of := g.all[key]
	if of == nil {
		return nil
	}
	p.Worked(1 + len(of.holders))
	move, ok := of.move()
	switch {
	case !ok:
		return nil
	case !move.Starts:
		return h.fail(p, key, move.key, move.Job, move.Reason, move.Message)
	}
	first := of.first()
	if err := g.put(p, move.Job, newHolder(first.key, first.Concurrency, p.Now)); err != nil {
		return err
	}
	g.leave(move.Job)
	h.jobs.Reconsider(move.Job)
	g.dirty.Add(key)
	return nil
}

// fail lets a Job of a group end as failed. Its pods are stopped first.
func (h *Holds) fail(p *loop.Pass, of groupKey, key string, uid types.UID, reason, message string) error {
	h.groups.dirty.Add(of)
	if !p.Works(key) {
		return nil
	}
	j, ok, err := p.Jobs.Get(key)
	if err != nil {
		return err
	}
	if !ok || j.UID != uid || batch.End(&j.Status) != nil {
		h.groups.leave(uid)
		h.groups.ended.Add(uid)
		return nil
	}
	t := metav1.NewTime(p.Now.Truncate(time.Second))
	j.Status.Conditions = append(slices.Clone(j.Status.Conditions), batchv1.JobCondition{
		Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastProbeTime: t, LastTransitionTime: t,
	})
	p.Jobs.Changed(key, j)
	return h.jobs.Set(p, key, j)
}
