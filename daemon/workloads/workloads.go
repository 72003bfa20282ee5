// Package workloads is the concern of Workloads of Kueue in the control loop: it makes this machine a worker of MultiKueue.
//
// Changes of Workloads come in, and of the Jobs that name them. Package workload decides. What goes out are the conditions of Workloads,
// changes of Jobs, which are handed to the concern of Jobs, and room that is held on the node until the pods are there. All that follows
// from one thing is written in one transaction: so a Job is started once, whenever the daemon is killed.
//
// Of a Workload that has finished nothing is known; where there are none, this concern does nothing.
package workloads

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json" // which tells apart the cases of names
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/elements"
	"github.com/jobd/jobd/api/kueue"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/workload"
	"github.com/jobd/jobd/store"
)

// maxPodSets is how many groups of pods a Workload may have, as in Kueue. A Job has one.
const maxPodSets = 8

// Workloads is the controller of Workloads. What was set aside is kept under the name of this type (loop.Controller).
type Workloads struct {
	loop.Base
	loop.NoJobs
	timers   *loop.Timers
	jobs     Jobs
	capacity Capacity

	known map[string]*record // by their keys, those that have not finished
	named map[string]map[types.UID]*handed
	of    map[types.UID]string // of a Job: the key of the Workload that it names
	// watching are those for which it matters what there is room for, and seen is the last change of that.
	watching map[string]struct{}
	seen     uint64
	dirty    *loop.Queue[string]
}

// record is what is known of a Workload.
type record struct {
	uid        types.UID
	created    time.Time
	generation int64
	pods       []node.Expected
	count      int
	inactive   bool
	refusal    string
	// holds is the key under which room is held; empty if none is. lacks is what was missing when it was looked at last.
	holds, lacks string
}

// handed is a Job that a manager has made.
type handed struct {
	workload.Job
	key     string
	created time.Time
}

// Jobs changes Jobs on behalf of their Workloads.
type Jobs interface {
	// Set folds in a Job as it now is.
	Set(p *loop.Pass, key string, j *batchv1.Job) error
	// Bound reports whether a pod of a Job is on the node.
	Bound(uid types.UID) bool
}

// Capacity is what the node has room for.
type Capacity interface {
	Unfit(pods []node.Expected) string
	Lacks(pods []node.Expected) string
	// Hold reserves room, Hand lets it be held under another key, and Release frees it.
	Hold(key string, pods []node.Expected)
	Hand(key, to string)
	Release(key string)
	// Openings counts when there may have come to be more room, or it may have become unfit.
	Openings() uint64
}

// New makes the controller.
func New(timers *loop.Timers, jobs Jobs, capacity Capacity) *Workloads {
	return &Workloads{
		timers: timers, jobs: jobs, capacity: capacity, known: map[string]*record{}, named: map[string]map[types.UID]*handed{},
		of: map[types.UID]string{}, watching: map[string]struct{}{}, dirty: loop.NewQueue[string](),
	}
}

// Rebuild makes the records of the Workloads that have not finished, and holds room for those that were admitted: whether their pods are
// there is seen when these are read.
func (c *Workloads) Rebuild(s *store.Snapshot, _ time.Time) error {
	return objects.Each(s, objects.KueueWorkloads, func(key string, w *kueue.Workload) error {
		rec := c.record(key, w)
		if rec == nil {
			return nil
		}
		c.dirty.Add(key)
		if is(w, kueue.Admitted) && rec.refusal == "" {
			c.hold(key, rec)
		}
		return nil
	})
}

func is(w *kueue.Workload, t string) bool {
	return slices.ContainsFunc(kueue.Conditions(w), func(c metav1.Condition) bool { return c.Type == t && c.Status == metav1.ConditionTrue })
}

// record returns the record of a Workload as it now is; nil if it has finished, or goes.
func (c *Workloads) record(key string, w *kueue.Workload) *record {
	if is(w, kueue.Finished) || w.DeletionTimestamp != nil {
		c.forget(key)
		return nil
	}
	rec := c.known[key]
	if rec != nil && rec.uid != w.UID {
		c.forget(key)
		rec = nil
	}
	if rec == nil {
		rec = &record{uid: w.UID, created: w.CreationTimestamp.Time, generation: -1}
		c.known[key] = rec
	}
	if rec.generation != w.Generation {
		rec.generation, rec.lacks = w.Generation, ""
		rec.read(w)
	}
	return rec
}

// read takes in what a Workload asks for.
func (r *record) read(w *kueue.Workload) {
	r.pods, r.count, r.inactive, r.refusal = nil, 0, false, ""
	spec, err := specOf(w)
	switch {
	case !kueue.ForJob(w.Name):
		r.refusal = "jobd runs the Jobs of MultiKueue, whose Workloads are called job-...: this one is of another kind"
		return
	case err != nil:
		r.refusal = fmt.Sprintf("jobd cannot read it: %v", err)
		return
	case len(spec.PodSets) == 0 || len(spec.PodSets) > maxPodSets:
		r.refusal = fmt.Sprintf("it has %d podSets, and a Job has one", len(spec.PodSets))
		return
	}
	r.inactive = !ptr.Deref(spec.Active, true)
	for i := range spec.PodSets {
		set := &spec.PodSets[i]
		if set.Count < 0 {
			r.refusal = fmt.Sprintf("podSets[%d].count is %d", i, set.Count)
			return
		}
		r.pods = append(r.pods, node.ExpectedOf(&set.Template, int(set.Count), r.created))
		r.count += int(set.Count)
	}
}

// specOf returns what is read of a Workload's spec. It was not decoded before, so nobody has looked for what takes long.
func specOf(w *kueue.Workload) (*kueue.Spec, error) {
	spec := &kueue.Spec{}
	if err := elements.QuantitiesInJSON(w.Spec, reflect.TypeFor[kueue.Spec]()); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(w.Spec, spec); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	return spec, nil
}

// hold holds room for a Workload, under the name of its Job once that is known.
func (c *Workloads) hold(key string, rec *record) {
	if rec.holds == "" {
		c.capacity.Hold(key, rec.pods)
		rec.holds = key
	}
}

func (c *Workloads) release(rec *record) {
	if rec.holds != "" {
		c.capacity.Release(rec.holds)
		rec.holds = ""
	}
}

// forget drops the record of a Workload that needs no more decisions.
func (c *Workloads) forget(key string) {
	if rec, ok := c.known[key]; ok {
		c.release(rec)
		delete(c.known, key)
		delete(c.watching, key)
		c.timers.Set(c, key, time.Time{})
	}
}

// Fold takes in what managers do to Workloads.
func (c *Workloads) Fold(_ *loop.Pass, change loop.Change) error {
	if change.Resource == objects.KueueWorkloads && !change.Deleted {
		c.dirty.Add(change.Object.Key)
	}
	return nil
}

// Gone takes in the end of a Workload: its room is free at once.
func (c *Workloads) Gone(_ *loop.Pass, o store.Object) {
	if objects.ResourceOf(o.Key) == objects.KueueWorkloads {
		c.forget(o.Key)
	}
}

// setJob folds in a Job that names a Workload.
func (c *Workloads) setJob(key string, j *batchv1.Job) {
	name := batch.HandedOut(&j.ObjectMeta)
	if name == "" || !job.Managed(j) {
		return
	}
	of := store.Key(objects.KueueWorkloads, j.Namespace, name)
	if before, ok := c.of[j.UID]; ok && before != of {
		c.drop(j.UID)
	}
	c.of[j.UID] = of
	if c.named[of] == nil {
		c.named[of] = map[types.UID]*handed{}
	}
	s := &j.Status
	c.named[of][j.UID] = &handed{
		Job: workload.Job{
			UID: j.UID, Suspended: ptr.Deref(j.Spec.Suspend, false), Deleting: j.DeletionTimestamp != nil, Active: int(s.Active),
			Begun: s.Succeeded+s.Failed+ptr.Deref(s.Ready, 0) > 0, End: batch.End(s),
		},
		key: key, created: j.CreationTimestamp.Time,
	}
	c.dirty.Add(of)
}

func (c *Workloads) drop(uid types.UID) {
	of, ok := c.of[uid]
	if !ok {
		return
	}
	delete(c.of, uid)
	if delete(c.named[of], uid); len(c.named[of]) == 0 {
		delete(c.named, of)
	}
	c.dirty.Add(of)
}

// JobRecovered implements loop.JobFollower. Of one that has finished nothing is known here yet, see jobOf.
func (c *Workloads) JobRecovered(key string, j *batchv1.Job) {
	c.setJob(key, j)
	if rec := c.known[c.of[j.UID]]; rec != nil { // its pods are read next
		c.hand(rec, key)
	}
}

// JobChanged implements loop.JobFollower.
func (c *Workloads) JobChanged(_ *loop.Pass, key string, j *batchv1.Job) error {
	c.setJob(key, j)
	return nil
}

// JobGone implements loop.JobFollower.
func (c *Workloads) JobGone(_ *loop.Pass, _ string, j *batchv1.Job) { c.drop(j.UID) }

// hand lets the pods of a Job have what is held.
func (c *Workloads) hand(rec *record, job string) {
	if rec.holds != "" {
		c.capacity.Hand(rec.holds, job)
		rec.holds = job
	}
}

// Due implements loop.Controller.
func (c *Workloads) Due(_ *loop.Pass, key string) error {
	c.dirty.Add(key)
	return nil
}

// Dirty implements loop.Controller.
func (c *Workloads) Dirty() bool { return c.dirty.Len() > 0 || c.opened() }

// opened reports whether those that watch the room are to be looked at.
func (c *Workloads) opened() bool { return len(c.watching) > 0 && c.capacity.Openings() != c.seen }

// Settle implements loop.Controller.
func (c *Workloads) Settle(p *loop.Pass) (bool, error) {
	if settled, err := c.dirty.Settle(func(key string) error { return c.settle(p, key) }); settled || err != nil {
		return settled, err
	}
	if !c.opened() {
		return false, nil
	}
	c.lookAgain(p)
	return c.dirty.Len() > 0, nil
}

// lookAgain finds those for which the room may have become enough, the oldest first, or the node unfit. Nothing is read of those for which
// the same is missing as before.
func (c *Workloads) lookAgain(p *loop.Pass) {
	c.seen = c.capacity.Openings()
	var keys []string
	for key := range c.watching {
		rec := c.known[key]
		if rec.holds == "" && rec.lacks != "" && c.capacity.Lacks(rec.pods) == rec.lacks {
			continue
		}
		keys = append(keys, key)
	}
	p.Worked(len(c.watching))
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(c.known[a].created.Compare(c.known[b].created), cmp.Compare(a, b))
	})
	for _, key := range keys {
		c.dirty.Add(key)
	}
}

// settle decides on a Workload and carries the decision out.
func (c *Workloads) settle(p *loop.Pass, key string) error {
	if !p.Works(key) {
		return nil
	}
	w := &kueue.Workload{}
	if ok, err := objects.Read(p, key, w); err != nil || !ok {
		c.forget(key)
		return err
	}
	rec := c.record(key, w)
	if rec == nil {
		return nil
	}
	_, owner := kueue.Owner(w)
	j, err := c.jobOf(p, key, w)
	if err != nil {
		return err
	}
	var its *workload.Job
	if j != nil {
		j.Begun = j.Begun || c.jobs.Bound(j.UID)
		its = &j.Job
	}
	of := room{c.capacity, rec}
	d := workload.Decide(&workload.Workload{
		Conditions: kueue.Conditions(w), Generation: w.Generation, Created: rec.created, Inactive: rec.inactive, Refusal: rec.refusal,
		Pods: rec.count, Owner: owner,
	}, its, of, p.Now)
	return c.carryOut(p, key, w, rec, j, d)
}

// room is what there is for a Workload.
type room struct {
	capacity Capacity
	of       *record
}

func (r room) Unfit() string { return r.capacity.Unfit(r.of.pods) }

func (r room) Lacks() string {
	r.of.lacks = r.capacity.Lacks(r.of.pods)
	return r.of.lacks
}

// jobOf returns the Job of a Workload: the one that it belongs to, or the first that names it; nil if there is none.
func (c *Workloads) jobOf(p *loop.Pass, key string, w *kueue.Workload) (*handed, error) {
	name, owner := kueue.Owner(w)
	if owner == "" {
		var first *handed
		for _, j := range c.named[key] {
			if first == nil || cmp.Or(j.created.Compare(first.created), cmp.Compare(j.key, first.key)) < 0 {
				first = j
			}
		}
		return first, nil
	}
	if j := c.named[key][owner]; j != nil {
		return j, nil
	}
	jobKey := store.Key(objects.Jobs, w.Namespace, name)
	j, ok, err := p.Jobs.Get(jobKey)
	if err != nil || !ok || j.UID != owner {
		return nil, err
	}
	c.setJob(jobKey, j) // it had finished before the daemon was started
	return c.named[key][owner], nil
}

// carryOut does what was decided.
func (c *Workloads) carryOut(p *loop.Pass, key string, w *kueue.Workload, rec *record, j *handed, d workload.Decision) error {
	c.timers.Set(c, key, d.Wake)
	if d.Held {
		c.hold(key, rec)
		if j != nil {
			c.hand(rec, j.key)
		}
	} else {
		c.release(rec)
	}
	if d.Watch {
		c.watching[key] = struct{}{}
	} else {
		delete(c.watching, key)
	}
	for _, e := range d.Events {
		if err := p.Event(objects.WorkloadReference(w), events.WorkloadController, e.Type, e.Reason, e.Message); err != nil {
			return err
		}
	}
	if d.Own {
		owner := metav1.NewControllerRef(&metav1.ObjectMeta{Name: nameOf(j.key), UID: j.UID}, batchv1.SchemeGroupVersion.WithKind("Job"))
		w.OwnerReferences = append(w.OwnerReferences, *owner)
	}
	if d.Changed {
		if err := kueue.SetConditions(w, d.Conditions); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if d.Own || d.Changed {
		if err := p.Put(key, w); err != nil {
			return err
		}
	}
	if is(w, kueue.Finished) {
		c.forget(key)
	}
	if d.Suspend || d.Resume {
		return c.suspend(p, j, d.Suspend)
	}
	return nil
}

func nameOf(key string) string {
	_, name := objects.NameOf(key)
	return name
}

// suspend suspends a Job, or lets it go on.
func (c *Workloads) suspend(p *loop.Pass, ref *handed, suspend bool) error {
	j, ok, err := p.Jobs.Get(ref.key)
	if err != nil || !ok || j.UID != ref.UID || ptr.Deref(j.Spec.Suspend, false) == suspend {
		return err
	}
	j.Spec.Suspend = ptr.To(suspend)
	j.Generation++
	p.Jobs.Changed(ref.key, j)
	return c.jobs.Set(p, ref.key, j)
}
