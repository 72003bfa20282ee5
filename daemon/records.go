package daemon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/daemon/ttl"
	"github.com/jobd/jobd/store"
)

// records is what the loop knows without asking the store: small values for the Jobs that are not done with and the
// pods that still run, wait or count. All of it can be rebuilt from the store at any time.
type records struct {
	jobs map[types.UID]*jobRecord
	pods map[types.UID]*podRecord
	node *node.Node
	room room
	due  *timers[timerKey]
	// selectors are the Jobs that choose their pods by labels of their own (JobSpec.ManualSelector).
	selectors map[types.UID]*jobRecord
	byKey     map[string]types.UID // of Jobs
	crons     *cronRecords

	// What is to be looked at: pods and Jobs that something has happened to, owners that are gone and may have left
	// something behind, objects whose owners may not be there, objects and namespaces that are being deleted.
	dirtyPods *set[string]
	dirtyJobs *set[types.UID]
	collect   *set[types.UID]
	abandoned *set[string]
	deleting  *set[string]
	emptying  *set[string]
	// furnishing are the namespaces that may lack what each has, nodeShown tells that the node's object is as it should be.
	furnishing *set[string]
	nodeShown  bool
	// gangs are the Workloads and PodGroups.
	gangs gangs
	// waits are pods that wait for room, of which it is still to be said why.
	waits []wait
	// expelling are the taints that pods have to leave for, tainted those that may have to.
	expelling []corev1.Taint
	tainted   *set[string]
	// walks are the owners whose objects several passes deal with, and where the next one goes on.
	walks map[types.UID]string
	// waiting are the owners that are being deleted, have asked what they own to go and wait for it, by UID with their
	// keys; terminating the namespaces that do.
	waiting map[types.UID]string
	// fileUsers are the pods made of ConfigMaps and Secrets, refresh those of them whose files may be out of date.
	fileUsers   *fileUsers
	refresh     *set[string]
	terminating map[string]*emptying
}

type jobRecord struct {
	*job.Record
	key string
}

// room is what this machine has for pods.
type room struct {
	maxPods     int
	allocatable node.Resources // nil: anything
	name        string
	labels      map[string]string // until the node's object says more
}

// node gives that room, empty.
func (r room) node() *node.Node {
	n := node.New(r.maxPods, r.allocatable)
	n.Describe(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: r.labels}})
	return n
}

type podRecord struct {
	key    string
	job    *jobRecord // that knows of it, nil for none
	room   *node.Pod
	issued pod.Issued
}

// timerKey names what becomes due.
type timerKey struct {
	what what
	key  string
}

type what int

const (
	dueJob what = iota
	duePod
	dueTTL
	dueCronJob
	dueEmptying
	dueSweep
	dueMeasure
	dueTokens
	dueTaint
	dueWaits
)

func newRecords(room room) *records {
	return &records{
		jobs:      map[types.UID]*jobRecord{},
		pods:      map[types.UID]*podRecord{},
		node:      room.node(),
		room:      room,
		due:       newTimers[timerKey](),
		selectors: map[types.UID]*jobRecord{},
		byKey:     map[string]types.UID{},
		crons:     newCronRecords(),

		dirtyPods: newSet[string](),
		dirtyJobs: newSet[types.UID](),
		collect:   newSet[types.UID](),
		abandoned: newSet[string](),
		deleting:  newSet[string](),
		emptying:  newSet[string](),
		tainted:   newSet[string](),
		gangs:     newGangs(),

		furnishing: newSet[string](),

		walks:       map[types.UID]string{},
		waiting:     map[types.UID]string{},
		fileUsers:   newFileUsers(),
		refresh:     newSet[string](),
		terminating: map[string]*emptying{},
	}
}

// rebuild reads the records from the store: at start, and when a pass was lost after its decisions had been folded in.
func rebuild(s *store.Snapshot, room room, now time.Time) (*records, error) {
	r := newRecords(room)
	r.due.Set(timerKey{what: dueSweep}, now)
	r.noteOwnerless(s)
	if err := r.noteDeletions(s); err != nil {
		return nil, err
	}
	if err := r.readNode(s); err != nil {
		return nil, err
	}
	if err := r.readCronJobs(s); err != nil {
		return nil, err
	}
	if err := r.readGangs(s); err != nil {
		return nil, err
	}
	living, err := r.readJobs(s, now)
	if err != nil {
		return nil, err
	}
	if err := r.readPods(s, living, now, func(key string, p *corev1.Pod) error {
		owner := controllingJob(p)
		if owner == "" && metav1.GetControllerOfNoCopy(p) == nil {
			if owner = r.selecting(p); owner == "" && slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
				r.abandoned.add(key)
			}
		}
		for _, ref := range p.OwnerReferences {
			if _, ok := living[ref.UID]; !ok {
				r.abandoned.add(key)
			}
		}
		r.setPod(key, p, owner)
		if r.pods[p.UID] != nil {
			r.dirtyPods.add(key)
		}
		r.noteDeletion(key, p)
		if p.Spec.NodeName != "" && !pod.Terminal(p) {
			r.watchDisk(key, p, now)
			if r.watchTokens(key, p, now) {
				r.refresh.add(key)
			}
			r.watchTaints(key)
		}
		if _, uses := r.fileUsers.byPod[key]; uses || showsItself(p) {
			r.refresh.add(key) // what they are made of may have changed while nobody looked
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for uid, rec := range r.jobs {
		if rec.Finished() && rec.Empty() {
			r.forgetJob(uid)
		} else {
			r.dirtyJobs.add(uid)
		}
	}
	return r, each(s, namespaces, newNamespace, func(_ string, ns *corev1.Namespace) error {
		r.noteNamespace(ns)
		return nil
	})
}

// dirty tells that there is something to be looked at now.
func (r *records) dirty() bool {
	return r.dirtyPods.len()+r.refresh.len()+r.dirtyJobs.len()+r.collect.len()+r.abandoned.len()+r.deleting.len()+r.emptying.len()+r.crons.dirty.len()+r.furnishing.len()+r.tainted.len() > 0 || !r.nodeShown
}

// noteNamespace notes what a namespace needs.
func (r *records) noteNamespace(ns *corev1.Namespace) {
	if ns.DeletionTimestamp != nil {
		r.emptying.add(ns.Name)
	} else {
		r.furnishing.add(ns.Name)
	}
}

// noteJob notes what is to come for a Job besides decisions.
func (r *records) noteJob(key string, j *batchv1.Job) {
	expires, _ := ttl.Expires(j)
	r.due.Set(timerKey{dueTTL, key}, expires)
	if j.DeletionTimestamp != nil {
		r.deleting.add(key)
	}
}

// setJob folds in a Job as it is, which was stored at now.
func (r *records) setJob(s *store.Snapshot, key string, j *batchv1.Job, now time.Time) error {
	if rec, ok := r.jobs[j.UID]; ok {
		rec.SetJob(j, now)
		return nil
	}
	memory, err := readMemory(s, j)
	if err != nil {
		return err
	}
	rec := &jobRecord{Record: job.NewRecord(j, memory), key: key}
	r.jobs[j.UID], r.byKey[key] = rec, j.UID
	if j.Spec.ManualSelector != nil && *j.Spec.ManualSelector {
		r.selectors[j.UID] = rec
	}
	return nil
}

// forgetJob drops the record of a Job that needs no more decisions. One that a late pod needs is made again.
func (r *records) forgetJob(uid types.UID) {
	if rec, ok := r.jobs[uid]; ok {
		r.due.Set(timerKey{dueJob, rec.key}, time.Time{})
		delete(r.byKey, rec.key)
	}
	delete(r.jobs, uid)
	delete(r.selectors, uid)
}

// dropJob forgets a Job that is no longer in the store.
func (r *records) dropJob(uid types.UID, key string) {
	r.forgetJob(uid)
	r.due.Set(timerKey{dueTTL, key}, time.Time{})
}

// setPod folds in a pod as it is, for itself and for the Job that it counts for.
func (r *records) setPod(key string, p *corev1.Pod, owner types.UID) {
	of := r.jobs[owner]
	r.tellJob(of, p)
	if rec, ok := r.pods[p.UID]; ok && rec.job != of { // somebody has taken it away
		r.tellJob(rec.job, p)
		rec.job = of
	}
	if done(p) {
		r.forgetPod(key, p.UID)
		return
	}
	rec, known := r.pods[p.UID]
	if !known {
		rec = &podRecord{key: key, job: of, room: node.PodOf(p)}
		r.pods[p.UID] = rec
		r.fileUsers.add(key, p)
	}
	switch {
	case pod.Terminal(p) || p.DeletionTimestamp != nil && p.Spec.NodeName == "":
		r.node.Gone(p.UID)
	case p.Spec.NodeName != "":
		var started time.Time
		if p.Status.StartTime != nil {
			started = p.Status.StartTime.Time
		}
		r.node.Bound(rec.room, started, p.DeletionTimestamp != nil)
	case len(p.Spec.SchedulingGates) > 0:
	default:
		if known { // its tolerations may have been changed
			if now := node.PodOf(p); !now.Alike(rec.room) {
				r.node.Gone(p.UID)
				rec.room = now
			}
		}
		r.node.Wait(rec.room, p.Status.NominatedNodeName != "")
	}
}

// tellJob tells a Job what a pod is now, which may be none of its own any more.
func (r *records) tellJob(rec *jobRecord, p *corev1.Pod) {
	if rec != nil {
		rec.SetPod(job.Summarize(p))
		r.dirtyJobs.add(r.byKey[rec.key])
	}
}

// dropPod forgets a pod that is no longer in the store.
func (r *records) dropPod(key string, uid, owner types.UID) {
	of := r.jobs[owner]
	if rec, ok := r.pods[uid]; ok && rec.job != nil {
		of = rec.job
	}
	if of != nil {
		of.DropPod(uid)
		r.dirtyJobs.add(r.byKey[of.key])
	}
	r.forgetPod(key, uid)
}

func (r *records) forgetPod(key string, uid types.UID) {
	r.node.Gone(uid)
	r.due.Set(timerKey{dueMeasure, key}, time.Time{})
	r.due.Set(timerKey{dueTokens, key}, time.Time{})
	r.fileUsers.remove(key)
	r.due.Set(timerKey{duePod, key}, time.Time{})
	r.due.Set(timerKey{dueTaint, key}, time.Time{})
	delete(r.pods, uid)
}

// selecting gives the Job that adopts an orphan, empty for none. One that is done with is left alone where the labels say
// whose it was: it was counted there.
func (r *records) selecting(p *corev1.Pod) (adopts types.UID) {
	takes := func(rec *jobRecord) bool {
		return p.DeletionTimestamp == nil && strings.HasPrefix(rec.key, store.Key(jobs, p.Namespace, "")) && rec.Adopts(p.Labels)
	}
	uid := types.UID(p.Labels[batchv1.ControllerUidLabel])
	if rec, ok := r.jobs[uid]; ok && !done(p) && takes(rec) {
		return uid
	}
	for uid, rec := range r.selectors {
		if takes(rec) && (adopts == "" || uid < adopts) {
			adopts = uid
		}
	}
	return adopts
}

func memoryKey(j *batchv1.Job) string { return store.Key(memories, j.Namespace, j.Name) }

// readMemory gives what was stored with a Job about pods that may be gone, nil for nothing.
func readMemory(s *store.Snapshot, j *batchv1.Job) (*job.Memory, error) {
	o, ok := s.Get(memoryKey(j))
	if !ok || o.UID != string(j.UID) {
		return nil, nil
	}
	m := &job.Memory{}
	if err := json.Unmarshal(o.Value, m); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	return m, nil
}
