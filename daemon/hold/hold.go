package hold

import (
	"iter"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// pastSteps is how many steps of work it counts as to search the history for a Job: a pass does some tens of that.
const pastSteps = loop.StepBudget / 50

// Holds is the controller of Jobs that are held back.
type Holds struct {
	loop.Base
	loop.NoPods
	jobs   Jobs
	sets   JobSets
	timers *loop.Timers

	needed  map[string]*needed // by key of the Job or JobSet
	waiters map[string]*waiter // by key of the Job or JobSet
	dirty   *loop.Queue[string]

	groups groups
}

// Jobs changes Jobs that were held back.
type Jobs interface {
	// Set folds in a Job as it now is.
	Set(p *loop.Pass, key string, j *batchv1.Job) error
	// Reconsider lets a Job be decided on that may start now.
	Reconsider(uid types.UID)
	// Begun yields the keys of the Jobs of a namespace that have begun and not finished.
	Begun(namespace string) iter.Seq[string]
}

// JobSets changes JobSets that were held back.
type JobSets interface {
	// Resume resumes a JobSet, and returns it; nil if it is not held back any more.
	Resume(p *loop.Pass, key string, uid types.UID) (*jobsetv1.JobSet, error)
}

// needed is a Job or a JobSet for which others wait.
type needed struct {
	// known: outcome is what is stored. It is looked up when that is asked for first.
	known   bool
	outcome Outcome
	// past: the history was searched for it.
	past    bool
	waiters map[string]struct{}
}

// waiter is a Job that waits for others, for a time, or for both, or a JobSet that waits for others.
type waiter struct {
	set       bool // it is a JobSet
	uid       types.UID
	namespace string
	created   time.Time
	needs     []batch.Need
	at        time.Time // see batch.StartAtAnnotation; zero: at any time
	// recovered: it was there when the daemon started, so that what it needs may have ended, and gone, before.
	recovered bool
}

// New makes the controller. It opens and closes the gate.
func New(timers *loop.Timers, jobs Jobs, sets JobSets, gate *Gate) *Holds {
	return &Holds{
		timers: timers, jobs: jobs, sets: sets, needed: map[string]*needed{}, waiters: map[string]*waiter{}, dirty: loop.NewQueue[string](),
		groups: newGroups(gate),
	}
}

// Rebuild implements loop.Controller.
func (h *Holds) Rebuild(s *store.Snapshot, _ time.Time) error { return h.groups.rebuild(s) }

// NamespaceKnown implements loop.NamespaceFollower.
func (h *Holds) NamespaceKnown(ns *corev1.Namespace) { h.groups.setNamespace(ns.Name, ns.Annotations) }

// NamespaceChanged implements loop.NamespaceFollower.
func (h *Holds) NamespaceChanged(p *loop.Pass, ns *corev1.Namespace) error {
	return h.changeNamespace(p, ns.Name, ns.Annotations)
}

// NamespaceGone implements loop.NamespaceFollower.
func (h *Holds) NamespaceGone(p *loop.Pass, name string) error {
	return h.changeNamespace(p, name, nil)
}

// changeNamespace looks again at the Jobs of a namespace whose group has changed, if they wait, have a place or have begun without one.
func (h *Holds) changeNamespace(p *loop.Pass, namespace string, annotations map[string]string) error {
	if !h.groups.setNamespace(namespace, annotations) {
		return nil
	}
	for key := range h.jobs.Begun(namespace) {
		h.groups.begun.Add(key)
	}
	var of []string
	for _, m := range h.groups.waits {
		if in, _ := objects.NameOf(m.key); in == namespace {
			of = append(of, m.key)
		}
	}
	for _, place := range h.groups.places {
		if place.Namespace == namespace {
			of = append(of, store.Key(objects.Jobs, namespace, place.Job))
		}
	}
	for _, key := range of {
		j, ok, err := p.Jobs.Peek(key)
		if err != nil {
			return err
		}
		if ok {
			h.groups.note(key, j)
			h.jobs.Reconsider(j.UID)
		}
	}
	return nil
}

// PodForgotten implements loop.PodFollower.
func (h *Holds) PodForgotten(key string) { h.groups.podForgotten(key) }

// JobRecovered implements loop.JobFollower.
func (h *Holds) JobRecovered(key string, j *batchv1.Job) {
	h.note(key, j, true)
	h.groups.note(key, j)
}

// JobSetAside implements loop.JobFollower: nothing is decided about a Job that was set aside, so that it keeps nobody waiting for a
// place which it could not use. One that has begun keeps its own.
func (h *Holds) JobSetAside(j *batchv1.Job) {
	h.forget(objects.Key(objects.Jobs, j))
	h.groups.leave(j.UID)
}

// JobChanged implements loop.JobFollower.
func (h *Holds) JobChanged(_ *loop.Pass, key string, j *batchv1.Job) error {
	if n := h.needed[key]; n != nil {
		h.learn(n, OutcomeOf(j))
	}
	h.note(key, j, false)
	h.groups.note(key, j)
	return nil
}

// JobGone implements loop.JobFollower.
func (h *Holds) JobGone(p *loop.Pass, key string, j *batchv1.Job) {
	h.forget(key)
	h.groups.gone(j.UID)
	if n := h.needed[key]; n != nil {
		h.learn(n, OutcomeOf(j).gone(p.Now))
	}
}

// JobSetRecovered implements loop.JobSetFollower.
func (h *Holds) JobSetRecovered(key string, js *jobsetv1.JobSet) { h.noteSet(key, js, true) }

// JobSetChanged implements loop.JobSetFollower.
func (h *Holds) JobSetChanged(key string, js *jobsetv1.JobSet) {
	if n := h.needed[key]; n != nil {
		h.learn(n, OutcomeOfSet(js))
	}
	h.noteSet(key, js, false)
}

// JobSetGone implements loop.JobSetFollower.
func (h *Holds) JobSetGone(p *loop.Pass, key string, js *jobsetv1.JobSet) {
	h.forget(key)
	if n := h.needed[key]; n != nil {
		h.learn(n, OutcomeOfSet(js).gone(p.Now))
	}
}

// learn takes in what has become of a Job or a JobSet for which others wait.
func (h *Holds) learn(n *needed, o Outcome) {
	same := n.known && n.outcome.Result == o.Result && n.outcome.Exists == o.Exists
	n.known, n.outcome = true, o
	if same || o.Result == "" {
		return // nobody has waited for that
	}
	for key := range n.waiters {
		h.dirty.Add(key)
	}
}

// note takes in a Job as it now is.
func (h *Holds) note(key string, j *batchv1.Job, recovered bool) {
	if !batch.Awaits(j) {
		h.forget(key)
		return
	}
	at, _ := batch.StartAt(j.Annotations)
	h.wait(key, &waiter{false, j.UID, j.Namespace, j.CreationTimestamp.Time, batch.After(j.Annotations), at, recovered})
}

// noteSet takes in a JobSet as it now is. It comes here after each decision about it.
func (h *Holds) noteSet(key string, js *jobsetv1.JobSet, recovered bool) {
	if !jobset.Awaits(js) {
		h.forget(key)
		return
	}
	needs := batch.After(js.Annotations)
	if was := h.waiters[key]; was == nil || was.uid != js.UID || !slices.Equal(was.needs, needs) {
		h.wait(key, &waiter{true, js.UID, js.Namespace, js.CreationTimestamp.Time, needs, time.Time{}, recovered})
	}
}

// wait takes in what a Job or a JobSet waits for.
func (h *Holds) wait(key string, w *waiter) {
	if was := h.waiters[key]; was != nil {
		// What is known of its needs is forgotten, and of one that is gone only the history tells.
		w.recovered = w.recovered || was.uid == w.uid
		h.forget(key)
	}
	h.waiters[key] = w
	for _, n := range w.needs {
		of := keyOf(w.namespace, n)
		if h.needed[of] == nil {
			h.needed[of] = &needed{waiters: map[string]struct{}{}}
		}
		h.needed[of].waiters[key] = struct{}{}
	}
	h.dirty.Add(key)
}

// forget takes in that a Job or a JobSet is not held back.
func (h *Holds) forget(key string) {
	w := h.waiters[key]
	if w == nil {
		return
	}
	delete(h.waiters, key)
	h.timers.Set(h, key, time.Time{})
	for _, n := range w.needs {
		of := keyOf(w.namespace, n)
		if delete(h.needed[of].waiters, key); len(h.needed[of].waiters) == 0 {
			delete(h.needed, of)
		}
	}
}

// Due implements loop.Controller: the time of a Job has come.
func (h *Holds) Due(_ *loop.Pass, key string) error {
	h.dirty.Add(key)
	return nil
}

// Dirty implements loop.Controller.
func (h *Holds) Dirty() bool { return h.dirty.Len() > 0 || h.groups.isDirty() }

// Settle implements loop.Controller.
func (h *Holds) Settle(p *loop.Pass) (bool, error) {
	if settled, err := h.dirty.Settle(func(key string) error { return h.settle(p, key) }); settled || err != nil {
		return settled, err
	}
	return h.settleGroups(p)
}

// settle resumes a Job or a JobSet if nothing holds it back any more.
func (h *Holds) settle(p *loop.Pass, key string) error {
	w := h.waiters[key]
	if w == nil || !p.Works(key) {
		return nil
	}
	if w.at.After(p.Now) {
		h.timers.Set(h, key, w.at)
		return nil
	}
	p.Worked(len(w.needs))
	outcomes := make([]Outcome, len(w.needs))
	for i, n := range w.needs {
		o, err := h.outcome(p, w, n)
		if err != nil {
			return err
		}
		if Judge(n, o, w.created) != Met {
			return nil
		}
		outcomes[i] = o
	}
	if w.set {
		js, err := h.sets.Resume(p, key, w.uid)
		if err != nil || js == nil {
			return err
		}
		reason, message := resumed(w, outcomes, p.Now)
		return p.Event(objects.JobSetReference(js), events.JobSetController, corev1.EventTypeNormal, reason, message)
	}
	j, ok, err := p.Jobs.Get(key)
	if err != nil || !ok || j.UID != w.uid || !batch.Awaits(j) {
		return err
	}
	batch.Resume(j, p.Now)
	p.Jobs.Changed(key, j)
	reason, message := resumed(w, outcomes, p.Now)
	if err := event(p, j, corev1.EventTypeNormal, reason, message); err != nil {
		return err
	}
	return h.jobs.Set(p, key, j)
}

// outcome returns what has become of a Job or a JobSet for which another waits.
func (h *Holds) outcome(p *loop.Pass, w *waiter, need batch.Need) (Outcome, error) {
	key := keyOf(w.namespace, need)
	n := h.needed[key]
	if !n.known {
		var err error
		if n.outcome, err = present(p, key, need.Set); err != nil {
			return Outcome{}, err
		}
		n.known = true
	}
	if n.outcome == (Outcome{}) && w.recovered && !n.past {
		n.past = true
		p.Worked(pastSteps)
		var err error
		if n.outcome, err = Past(p.Snapshot(), w.namespace, need, time.Time{}); err != nil {
			return Outcome{}, err
		}
	}
	return n.outcome, nil
}

// present returns what a Job or a JobSet says of itself; nothing if there is none.
func present(p *loop.Pass, key string, set bool) (o Outcome, err error) {
	if set {
		js := &jobsetv1.JobSet{}
		ok, err := objects.Read(p, key, js)
		if ok && err == nil {
			o = OutcomeOfSet(js)
		}
		return o, err
	}
	j, ok, err := p.Jobs.Peek(key)
	if ok && err == nil {
		o = OutcomeOf(j)
	}
	return o, err
}

func event(p *loop.Pass, j *batchv1.Job, kind, reason, message string) error {
	return p.Event(objects.JobReference(j), events.JobController, kind, reason, message)
}
