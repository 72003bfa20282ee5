// Package jobsets is the concern of JobSets in the control loop: it makes their Jobs, their Services and their claims, and ends them.
//
// Changes of JobSets come in, and of the Jobs that they control. Package jobset decides. What goes out are Jobs, Services and claims,
// created through daemon/door, changes and deletions of Jobs, which are handed to the concern of Jobs, and the status of JobSets. What
// follows from the end of a Job is written in the transaction in which it ends.
//
// Nothing is kept in memory of a JobSet that has finished and has no Jobs that go on, and where there are no JobSets this
// concern does nothing.
package jobsets

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	wire "github.com/jobd/jobd/api/history"
	api "github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/door"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/jobset"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/store"
)

const (
	// most is how many Jobs of a JobSet are created and changed in one decision.
	most = 200
	// firstRetry is how long a JobSet waits of which something could not be created, and lastRetry how long at most, after many times.
	firstRetry, lastRetry = 5 * time.Second, 5 * time.Minute
)

// JobSets is the controller of JobSets. What was set aside is kept under the name of this type (loop.Controller).
type JobSets struct {
	loop.Base
	*loop.Children[*record]
	timers  *loop.Timers
	follow  *loop.Followers
	jobs    Jobs
	claims  Claims
	gangs   Gangs
	garbage Garbage
	doors   *door.Keeper
	notices Notices
	history History

	known map[types.UID]*record
	dirty *loop.Queue[string] // JobSets that something has happened to
	sets  decoded
}

type record struct {
	*jobset.Record
	key      string
	refusals int // one after the other
}

// Key implements loop.Parent.
func (r *record) Key() string { return r.key }

// Jobs changes Jobs on behalf of their JobSets.
type Jobs interface {
	// Set folds in a Job as it now is.
	Set(p *loop.Pass, key string, j *batchv1.Job) error
}

// Claims takes in claims.
type Claims interface {
	// Changed notes a claim that was written.
	Changed(key string)
}

// Garbage collects what is being deleted.
type Garbage interface {
	// Deleting notes that an object is being deleted.
	Deleting(key string)
	// NoteDeletion notes an object if it is being deleted and its dependents have to go first.
	NoteDeletion(key string, obj metav1.Object)
}

// Notices tell people what becomes of JobSets.
type Notices interface {
	// JobSetDecided takes in a JobSet after a decision, whether any pod of it has run, and whether it had finished before.
	JobSetDecided(p *loop.Pass, key string, js *jobsetv1.JobSet, begun, finished bool) error
}

// History keeps how JobSets have ended.
type History interface {
	// JobSetEnded takes in that a JobSet has finished, or is gone before it had.
	JobSetEnded(p *loop.Pass, js *jobsetv1.JobSet, result, reason string)
}

// New makes the controller.
func New(
	timers *loop.Timers, followers *loop.Followers, jobs Jobs, claims Claims, gangs Gangs, garbage Garbage, doors *door.Keeper,
	notices Notices, history History,
) *JobSets {
	known, dirty := map[types.UID]*record{}, loop.NewQueue[string]()
	return &JobSets{
		Children: loop.NewChildren(objects.JobSets, api.Of, known, dirty),
		timers:   timers, follow: followers, jobs: jobs, claims: claims, gangs: gangs, garbage: garbage, doors: doors, notices: notices, history: history,
		known: known, dirty: dirty,
		sets: decoded{sets: map[string]stored{}},
	}
}

// Rebuild makes the records of all JobSets, to which their Jobs are added when these are read.
func (c *JobSets) Rebuild(s *store.Snapshot, _ time.Time) error {
	return objects.Each(s, objects.JobSets, func(key string, js *jobsetv1.JobSet) error {
		c.known[js.UID] = &record{Record: jobset.NewRecord(js), key: key}
		c.dirty.Add(key)
		for _, f := range c.follow.JobSets() {
			f.JobSetRecovered(key, js)
		}
		return nil
	})
}

// Fold takes in what clients do to JobSets. The end of one is Gone.
func (c *JobSets) Fold(_ *loop.Pass, change loop.Change) error {
	if change.Resource == objects.JobSets && !change.Deleted {
		c.dirty.Add(change.Object.Key)
	}
	return nil
}

// ChangedAside implements loop.AsideFollower.
func (c *JobSets) ChangedAside(p *loop.Pass, change loop.Change) error {
	if change.Resource != objects.JobSets {
		return nil
	}
	js := &jobsetv1.JobSet{}
	ok, err := objects.Read(p, change.Object.Key, js)
	if ok && err == nil {
		c.garbage.NoteDeletion(change.Object.Key, js)
	}
	return err
}

// Gone takes in the end of a JobSet, or of a Service of one, which is made again.
func (c *JobSets) Gone(p *loop.Pass, o store.Object) {
	switch objects.ResourceOf(o.Key) {
	case objects.JobSets:
		uid := types.UID(o.UID)
		c.forget(uid)
		c.sets.drop(o.Key)
		c.timers.Set(c, o.Key, time.Time{})
		c.gone(p, o)
		history.ForgetCreator(p, o.Key, uid)
	case objects.Services:
		for _, owner := range o.Owners {
			if rec, ok := c.known[types.UID(owner)]; ok {
				c.dirty.Add(rec.key)
			}
		}
	}
}

// gone tells others that a JobSet is gone.
func (c *JobSets) gone(p *loop.Pass, o store.Object) {
	js := &jobsetv1.JobSet{}
	if err := objects.Decode(o, js); err != nil {
		return // it was stored so that nobody can read it, and nobody knows anything of it
	}
	if api.End(&js.Status) == nil {
		c.history.JobSetEnded(p, js, wire.Deleted, "")
	}
	for _, f := range c.follow.JobSets() {
		f.JobSetGone(p, o.Key, js)
	}
}

// Resume resumes a JobSet that was held back, and returns it; nil if it is not there any more, or not held back.
func (c *JobSets) Resume(p *loop.Pass, key string, uid types.UID) (*jobsetv1.JobSet, error) {
	js, err := c.sets.read(p, key)
	if err != nil || js == nil || js.UID != uid || !api.Awaits(js) {
		return nil, err
	}
	api.Resume(js, p.Now)
	c.dirty.Add(key)
	return js, c.sets.put(p, key, js)
}

// forget drops the record of a JobSet that needs no more decisions.
func (c *JobSets) forget(uid types.UID) {
	if rec, ok := c.known[uid]; ok {
		for job := range rec.UIDs() {
			c.Disown(job)
		}
		delete(c.known, uid)
	}
}

// QuotaFreed implements loop.QuotaFollower: what was refused may be allowed now.
func (c *JobSets) QuotaFreed(_ *loop.Pass, namespace string) {
	for _, rec := range c.known {
		if of, _ := objects.NameOf(rec.key); rec.refusals > 0 && of == namespace {
			c.dirty.Add(rec.key)
		}
	}
}

// Due implements loop.Controller.
func (c *JobSets) Due(_ *loop.Pass, key string) error {
	c.dirty.Add(key)
	return nil
}

// Dirty implements loop.Controller.
func (c *JobSets) Dirty() bool { return c.dirty.Len() > 0 }

// Settle implements loop.Controller.
func (c *JobSets) Settle(p *loop.Pass) (bool, error) {
	return c.dirty.Settle(func(key string) error { return c.settle(p, key) })
}

// settle decides on a JobSet and carries the decision out.
func (c *JobSets) settle(p *loop.Pass, key string) error {
	if !p.Works(key) {
		return nil
	}
	js, err := c.sets.read(p, key)
	if err != nil || js == nil {
		return err
	}
	rec, err := c.recordOf(p, key, js)
	if err != nil {
		return err
	}
	finished := api.End(&js.Status) != nil
	d := jobset.Decide(js, rec.Record, p.Now, c.batch(p, key))
	c.timers.Set(c, key, d.Wake)
	if err := c.carryOut(p, js, rec, d); err != nil {
		return err
	}
	if err := c.notices.JobSetDecided(p, key, js, rec.Begun(), finished); err != nil {
		return err
	}
	for _, f := range c.follow.JobSets() {
		f.JobSetChanged(key, js)
	}
	if d.More {
		c.dirty.Add(key)
	} else if (d.Finished || js.DeletionTimestamp != nil) && rec.AllEnded() {
		c.forget(js.UID)
		c.sets.drop(key)
	}
	return nil
}

// recordOf returns the record of a JobSet, and makes it of what is stored if there is none.
func (c *JobSets) recordOf(p *loop.Pass, key string, js *jobsetv1.JobSet) (rec *record, err error) {
	if rec, ok := c.known[js.UID]; ok {
		return rec, nil
	}
	rec = &record{Record: jobset.NewRecord(js), key: key}
	c.known[js.UID] = rec
	p.Snapshot().Owned(string(js.UID), store.Key(objects.Jobs, js.Namespace, ""), "", func(job string) bool {
		var j *batchv1.Job
		var ok bool
		if j, ok, err = p.Jobs.Get(job); ok && err == nil {
			if _, owner := api.Of(j); owner == js.UID {
				c.Adopt(rec, j)
			}
			p.Jobs.Drop(job)
		}
		return err == nil
	})
	return rec, err
}

// batch returns how many Jobs a decision may be about: where they are large, fewer.
func (c *JobSets) batch(p *loop.Pass, key string) int {
	n := most
	if p.Joined() {
		n = loop.JoinedBudget / 2
	}
	return max(1, min(n, p.Room()/(4*p.Size(key)+1)))
}

// carryOut does what was decided for a JobSet, in the order of the decision's fields.
func (c *JobSets) carryOut(p *loop.Pass, js *jobsetv1.JobSet, rec *record, d jobset.Decision) error {
	if d.Status.Restarts > js.Status.Restarts {
		crash.At("jobset.restart.decided")
	}
	for _, j := range d.Delete {
		if err := c.change(p, js, j, func(job *batchv1.Job) bool { return remove(job, p.Now) }); err != nil {
			return err
		}
		crash.At("jobset.job.deleted")
	}
	if err := c.create(p, js, rec, &d); err != nil {
		return err
	}
	for _, j := range d.Suspend {
		if err := c.change(p, js, j, jobset.Suspend); err != nil {
			return err
		}
	}
	templates := map[string]*jobsetv1.ReplicatedJob{}
	for i := range js.Spec.ReplicatedJobs {
		templates[js.Spec.ReplicatedJobs[i].Name] = &js.Spec.ReplicatedJobs[i]
	}
	for _, j := range d.Resume {
		if err := c.change(p, js, j, func(job *batchv1.Job) bool { return jobset.Resume(job, templates[j.Group]) }); err != nil {
			return err
		}
	}
	for _, j := range d.Pause {
		if err := c.change(p, js, j, func(job *batchv1.Job) bool { return jobset.Pause(job, js) }); err != nil {
			return err
		}
	}
	if d.Ended != "" {
		p.Figures.JobSetEnded(js.Name, js.Namespace, d.Ended == jobsetv1.JobSetCompleted)
		c.history.JobSetEnded(p, js, string(api.Result(&d.Status)), api.End(&d.Status).Reason)
	}
	for _, e := range d.Events {
		if err := event(p, js, e); err != nil {
			return err
		}
	}
	if d.Expired && remove(js, p.Now) {
		c.garbage.Deleting(rec.key)
	} else if !d.Changed {
		return nil
	}
	js.Status = d.Status
	return c.sets.putStatus(p, rec.key, js)
}

// remove marks an object deleted, after what belongs to it, and reports whether that is new.
func remove(obj metav1.Object, now time.Time) bool {
	if obj.GetDeletionTimestamp() != nil {
		return false
	}
	storage.MarkDeleted(obj, now, 0)
	storage.SetPropagation(obj, metav1.DeletePropagationForeground)
	return true
}

// change changes a Job, unless it is gone.
func (c *JobSets) change(p *loop.Pass, js *jobsetv1.JobSet, ref jobset.Job, change func(*batchv1.Job) bool) error {
	key := store.Key(objects.Jobs, js.Namespace, ref.Name)
	j, ok, err := p.Jobs.Get(key)
	if err != nil || !ok || j.UID != ref.UID || !change(j) {
		return err
	}
	p.Jobs.Changed(key, j)
	return c.jobs.Set(p, key, j)
}

func event(p *loop.Pass, js *jobsetv1.JobSet, e jobset.Event) error {
	return p.Event(objects.JobSetReference(js), events.JobSetController, e.Type, e.Reason, e.Message)
}
