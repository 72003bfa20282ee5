package control

import (
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/gc"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// jobRecords are the Jobs that still need decisions, or have pods that do.
type jobRecords struct {
	aside   *aside.List
	garbage *gc.Notes
	queue   *queue

	known map[types.UID]*jobRecord
	byKey map[string]types.UID
	// selectors are the Jobs that choose their pods by labels of their own (JobSpec.ManualSelector), by namespace. The API takes no
	// more than a hundred, since each pod that nobody controls is compared with them whenever it changes.
	selectors map[string]map[types.UID]*jobRecord
	dirty     *loop.Queue[types.UID]
	// windows are those of the namespaces that have one.
	windows map[string]*core.Window
	// all has the keys of all Jobs in the store, while the records are being rebuilt.
	all map[types.UID]string
}

func newJobRecords(aside *aside.List, garbage *gc.Notes, queue *queue) *jobRecords {
	return &jobRecords{
		aside: aside, garbage: garbage, queue: queue,
		known: map[types.UID]*jobRecord{}, byKey: map[string]types.UID{}, selectors: map[string]map[types.UID]*jobRecord{},
		dirty: loop.NewQueue[types.UID](), windows: map[string]*core.Window{},
	}
}

// concernOfJobs is how package loop calls the concern.
const concernOfJobs = "jobs"

// podChanged folds a pod as it now is into the record of a Job, which may no longer be the pod's own.
func (c *jobRecords) podChanged(rec *jobRecord, p *corev1.Pod) {
	if rec != nil {
		rec.SetPod(job.Summarize(p))
		c.enqueue(c.byKey[rec.key])
	}
}

// Drop lets a Job forget a pod that is no longer its own. It implements gc.Jobs.
func (c *jobRecords) Drop(owner, pod types.UID) {
	if rec, ok := c.known[owner]; ok {
		rec.DropPod(pod)
	}
}

// Adopts reports whether a Job will adopt a pod that has no controller. It implements gc.Jobs.
func (c *jobRecords) Adopts(p *corev1.Pod) bool { return c.adopting(p) != "" }

// adopting returns the Job that will adopt an orphan; empty if there is none. The Job that the labels of an orphan
// name does not adopt it when the orphan is done with, since it has counted it then.
func (c *jobRecords) adopting(p *corev1.Pod) (adopts types.UID) {
	takes := func(rec *jobRecord) bool {
		return p.DeletionTimestamp == nil && strings.HasPrefix(rec.key, store.Key(objects.Jobs, p.Namespace, "")) &&
			rec.Adopts(p.Labels)
	}
	uid := types.UID(p.Labels[batchv1.ControllerUidLabel])
	if rec, ok := c.known[uid]; ok && !objects.Done(p) && takes(rec) {
		return uid
	}
	for uid, rec := range c.selectors[p.Namespace] {
		if takes(rec) && (adopts == "" || uid < adopts) {
			adopts = uid
		}
	}
	return adopts
}

// of returns the UID of the Job that a pod counts for, and makes sure that this Job has a record. It is the Job that controls
// the pod or, for an orphan, one whose selector matches (JobSpec.Selector).
func (c *jobRecords) of(p *loop.Pass, pod *corev1.Pod) (types.UID, error) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		p.Worked(len(c.selectors[pod.Namespace]))
		adopts := c.adopting(pod)
		if adopts == "" && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
			c.garbage.Abandoned(objects.Key(objects.Pods, pod))
		}
		return adopts, nil
	}
	uid := objects.ControllingJob(pod)
	key := store.Key(objects.Jobs, pod.Namespace, owner.Name)
	if rec := c.known[uid]; uid == "" || rec != nil && rec.key == key {
		return uid, nil
	}
	// The record was dropped when the Job finished, or the Job is gone, or one of another namespace.
	j, ok, err := p.Jobs.Get(key)
	switch {
	case err != nil:
		return "", err
	case !ok || j.UID != uid:
		if pod.DeletionTimestamp == nil || slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
			c.garbage.Abandoned(objects.Key(objects.Pods, pod))
		}
		return "", nil
	}
	return uid, c.record(p.Snapshot(), p.Get, key, j, p.Now)
}

// enqueue lets a Job be decided on in this pass or the next; an empty UID means none.
func (c *jobRecords) enqueue(uid types.UID) {
	if uid != "" {
		c.dirty.Add(uid)
	}
}

// record makes sure that a Job has a record, and folds the Job in as it is. One that was set aside has none: its pods go on,
// and are counted when it has one again.
//
// get reads what is stored by now, which the pass may have changed since the snapshot.
func (c *jobRecords) record(
	s *store.Snapshot, get func(key string) (store.Object, bool), key string, j *batchv1.Job, now time.Time,
) error {
	if c.aside.Has(concernOfJobs, key) {
		return nil
	}
	ahead := batch.Prioritized(j.Annotations)
	if rec, ok := c.known[j.UID]; ok {
		before, paused, stands, closed := rec.Deadline(), rec.Paused(), rec.Stands(), rec.WindowClosed()
		deadline := ptr.Deref(rec.ActiveDeadline(), -1)
		rec.SetJob(j, now)
		c.choose(rec, j)
		if rec.Paused() != paused || rec.Stands() != stands || rec.WindowClosed() != closed {
			c.queue.pausedOrContinued(rec)
		}
		if _, asks := j.Spec.Template.Annotations[core.SignalAnnotation]; asks && !rec.Deadline().Equal(before) {
			c.queue.lookAgain(rec) // their signal comes at another time
		}
		if !rec.ahead.Equal(ahead) || deadline != ptr.Deref(rec.ActiveDeadline(), -1) {
			rec.ahead = ahead
			c.queue.reorder(rec)
		}
		if by := j.Annotations[core.PreemptByAnnotation]; rec.preemptBy != by {
			rec.preemptBy = by
			c.queue.judgePausable(c.queue.podsOf(rec))
		}
		return nil
	}
	memory, err := readMemory(s, j)
	if err != nil {
		return err
	}
	rec := &jobRecord{Record: job.NewRecord(j, memory), key: key, ahead: ahead, preemptBy: j.Annotations[core.PreemptByAnnotation]}
	rec.Inherit(c.windows[j.Namespace])
	if fair := c.queue.fair; fair != nil && fair.ByCreator {
		if o, ok := get(storage.CreatorKey(key)); ok && o.UID == string(j.UID) {
			rec.creator = string(o.Value)
		}
	}
	c.known[j.UID], c.byKey[key] = rec, j.UID
	c.choose(rec, j)
	return nil
}

// choose notes whether a Job chooses its pods by labels of its own.
func (c *jobRecords) choose(rec *jobRecord, j *batchv1.Job) {
	if !ptr.Deref(j.Spec.ManualSelector, false) {
		c.chooseNone(j.Namespace, j.UID)
		return
	}
	if c.selectors[j.Namespace] == nil {
		c.selectors[j.Namespace] = map[types.UID]*jobRecord{}
	}
	c.selectors[j.Namespace][j.UID] = rec
}

func (c *jobRecords) chooseNone(namespace string, uid types.UID) {
	if delete(c.selectors[namespace], uid); len(c.selectors[namespace]) == 0 {
		delete(c.selectors, namespace)
	}
}

// drop drops the record of a Job.
func (c *jobRecords) drop(uid types.UID) {
	if rec, ok := c.known[uid]; ok {
		delete(c.byKey, rec.key)
		namespace, _ := objects.NameOf(rec.key)
		c.chooseNone(namespace, uid)
	}
	delete(c.known, uid)
}
