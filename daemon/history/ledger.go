package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// pruneInterval is how often the history is looked at for what is too old.
const pruneInterval = time.Hour

// Ledger keeps the history of Jobs: what their pods have used is added up as they end, and written together with the
// pod's status, so that each end counts once.
//
// What is not yet history is stored under two resources that no client sees: what the ended containers of a running pod
// have used, by the pod's UID, and the sums of a Job of which pods have ended, by the Job's UID.
type Ledger struct {
	loop.Base
	loop.NoPods
	loop.NoJobs
	timers *loop.Timers
	limits Limits
	gpus   func(*corev1.Pod) GPUs // nil: nobody has any

	log     *Log
	pods    map[types.UID]*entry // those that run
	usages  map[types.UID]*Pod   // of those of pods of which containers have ended
	jobs    map[types.UID]*entry // those of which pods run or have ended
	changed map[types.UID]bool   // those of jobs that the pass has to write or to close
	// ended are the Jobs that the pass adds to the history.
	ended []wire.Job
	// prune: the history may be larger or older than it should be.
	prune bool
}

// entry is what is known of a Job.
type entry struct {
	*Account // nil until a pod, or the Job itself, has ended or is gone, see open
	job      types.UID
	running  int // pods
	// values is the data of the ConfigMap with the values of its indexes, once a pod that has some has ended.
	values map[string]string
	// ended: another controller has ended the Job (JobSpec.ManagedBy) while nothing here ran.
	ended bool
}

// NewLedger makes the controller. gpus returns what a pod has had of GPUs; nil: nobody has any.
func NewLedger(timers *loop.Timers, limits Limits, gpus func(*corev1.Pod) GPUs) *Ledger {
	return &Ledger{
		timers: timers, limits: limits, gpus: gpus,
		pods: map[types.UID]*entry{}, usages: map[types.UID]*Pod{},
		jobs: map[types.UID]*entry{}, changed: map[types.UID]bool{},
	}
}

// Rebuild implements loop.Controller.
func (c *Ledger) Rebuild(s *store.Snapshot, now time.Time) (err error) {
	if c.log, err = Open(s, c.limits); err != nil {
		return err
	}
	s.Range(objects.Accounts+"/", "", func(o store.Object) bool {
		var a *Account
		if a, err = DecodeAccount(o.Value); err == nil {
			j, _ := s.Get(store.Key(objects.Jobs, a.Job.Namespace, a.Job.Name))
			a.Gone = j.UID != o.UID
			of := &entry{Account: a, job: types.UID(o.UID)}
			if !a.Gone && a.Job.ManagedBy != "" {
				end := &batchv1.Job{}
				if err = scheme.DecodePart(j.Value, objects.JobEnd, end); err != nil {
					return false
				}
				of.ended = objects.Finished(end)
			}
			c.jobs[of.job] = of
			if a.Gone || of.ended { // it is closed, of a Job that is gone if it has no pods either
				c.changed[of.job] = true
			}
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	c.timers.Set(c, "", now.Add(time.Minute)) // the limits may have been changed
	return nil
}

// PodBound implements loop.PodFollower.
func (c *Ledger) PodBound(_ string, p *corev1.Pod, _ time.Time) {
	of := objects.ControllingJob(p)
	if of == "" || c.pods[p.UID] != nil || podspec.Ended(p) {
		return
	}
	a := c.of(of)
	c.pods[p.UID] = a
	a.running++
}

// of returns the account of a Job.
func (c *Ledger) of(job types.UID) *entry {
	a := c.jobs[job]
	if a == nil {
		a = &entry{job: job}
		c.jobs[job] = a
	}
	return a
}

// open returns the account of a Job, in which something is to be written.
func (c *Ledger) open(job types.UID) *entry {
	a := c.of(job)
	if a.Account == nil {
		a.Account = &Account{}
	}
	return a
}

// Runs reports whether a pod of a Job runs.
func (c *Ledger) Runs(pod types.UID) bool { return c.pods[pod] != nil }

// Running returns the pods of Jobs that run.
func (c *Ledger) Running() iter.Seq[types.UID] { return maps.Keys(c.pods) }

// used returns what the containers of a pod have used that have ended; nil if it does not run, or is none of a Job.
func (c *Ledger) used(p *loop.Pass, obj *corev1.Pod) (*Pod, error) {
	of := c.pods[obj.UID]
	if of == nil {
		return nil, nil
	}
	if use := c.usages[obj.UID]; use != nil {
		return use, nil
	}
	o, ok := p.Get(usageKey(obj.UID))
	if !ok {
		return &Pod{Key: objects.Key(objects.Pods, obj), Of: string(of.job)}, nil
	}
	stored, err := DecodePod(o.Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	return stored, nil
}

func usageKey(pod types.UID) string   { return store.Key(objects.Usages, "", string(pod)) }
func accountKey(job types.UID) string { return store.Key(objects.Accounts, "", string(job)) }

// Observed takes in what was observed of a pod, which the pod's status by now has too.
func (c *Ledger) Observed(p *loop.Pass, obj *corev1.Pod, observations []duty.Observation) error {
	use, err := c.used(p, obj)
	if err != nil || use == nil {
		return err
	}
	changed := use.Fold(observations)
	if changed {
		c.usages[obj.UID] = use
	}
	over := podspec.Ended(obj)
	// What explains why a container ran out of memory stays as long as the pod.
	if changed && (!over || len(use.OOMPeaks) > 0) {
		value, err := json.Marshal(use)
		if err != nil {
			return err
		}
		p.PutStored(store.Object{Key: usageKey(obj.UID), UID: string(obj.UID), Value: value})
	} else if over && len(use.OOMPeaks) == 0 {
		p.Delete(usageKey(obj.UID))
	}
	if over {
		return c.end(p, obj, use)
	}
	return nil
}

// PodGone takes in that the object of a pod is gone.
func (c *Ledger) PodGone(p *loop.Pass, obj *corev1.Pod) error {
	use, err := c.used(p, obj)
	p.Delete(usageKey(obj.UID))
	if err != nil || use == nil {
		return err
	}
	return c.end(p, obj, use)
}

// end adds a pod to the account of its Job.
func (c *Ledger) end(p *loop.Pass, obj *corev1.Pod, use *Pod) error {
	known := c.pods[obj.UID]
	known.running--
	delete(c.pods, obj.UID)
	delete(c.usages, obj.UID)
	of := known.job
	a := c.open(of)      // another one if the Job has ended before
	if a.Job.UID == "" { // so that it is known whose it is, if the Job goes first
		j, ok, err := c.job(p, obj)
		if err != nil {
			return err
		}
		if !ok || objects.Finished(j) { // somebody has made a pod that names a Job that is over
			delete(c.jobs, of)
			p.Delete(accountKey(of))
			return nil
		}
		describe(p, a, j)
	}
	ended := use.End(obj, p.Now)
	if ended.Result == wire.PodStopped {
		switch j, ok, err := c.job(p, obj); {
		case err != nil:
			return err
		case !ok:
		case ended.ExitCode != nil && endsFor(j, batchv1.JobReasonBackoffLimitExceeded):
			// With restartPolicy OnFailure a Job stops the pod whose failures were too many: that is how such a pod fails.
			ended.Result = wire.PodFailed
		case endsFor(j, batchv1.JobReasonDeadlineExceeded):
			ended.Reason = cmp.Or(ended.Reason, batchv1.JobReasonDeadlineExceeded)
		}
	}
	if c.gpus != nil {
		c.gpus(obj).had(&ended)
	}
	if obj.Annotations[batch.IndexEnvAnnotation] != "" && a.values == nil {
		var err error
		if a.values, err = objects.PodIndexValues(p, obj); err != nil {
			return err
		}
	}
	ended.Values = boundedValues(batch.PodIndexValues(obj, a.values))
	a.Asks(obj, &ended)
	if part := a.Add(ended); part != nil {
		c.ended = append(c.ended, *part)
	}
	c.changed[of] = true
	return nil
}

// job returns the Job of a pod.
func (c *Ledger) job(p *loop.Pass, obj *corev1.Pod) (*batchv1.Job, bool, error) {
	for _, ref := range obj.OwnerReferences {
		if ref.UID != objects.ControllingJob(obj) {
			continue
		}
		j, ok, err := p.Jobs.Get(store.Key(objects.Jobs, obj.Namespace, ref.Name))
		return j, ok && j.UID == ref.UID, err
	}
	return nil, false, nil
}

// Creator returns who has created a Job or CronJob; empty if that is not known.
func Creator(p *loop.Pass, key string, uid types.UID) string {
	if o, ok := p.Get(storage.CreatorKey(key)); ok && o.UID == string(uid) {
		return string(o.Value)
	}
	return ""
}

// ForgetCreator forgets who has created an object that is gone.
func ForgetCreator(p *loop.Pass, key string, uid types.UID) {
	if o, ok := p.Get(storage.CreatorKey(key)); ok && o.UID == string(uid) {
		p.Delete(o.Key)
	}
}

// JobEnded takes in that a Job is to have a status that says that it has ended.
func (c *Ledger) JobEnded(p *loop.Pass, j *batchv1.Job, status *batchv1.JobStatus) {
	a := c.open(j.UID)
	describe(p, a, j)
	c.close(p, j.UID, a.Close(j, status, p.Now))
}

// describe takes in what is known of a Job that has not ended yet, or is just ending.
func describe(p *loop.Pass, a *entry, j *batchv1.Job) {
	namespace, _ := p.Get(store.Key(objects.Namespaces, "", j.Namespace))
	a.Describe(j, types.UID(namespace.UID), Creator(p, objects.Key(objects.Jobs, j), j.UID), p.Now)
}

// JobElsewhere takes in a Job that another controller manages (JobSpec.ManagedBy), and ends by a status of its own, in a
// transaction that is not ours. An account that is open from the Job's beginning tells after a crash that the history does not
// have the Job yet. unended says that the Job has not ended before this change.
func (c *Ledger) JobElsewhere(p *loop.Pass, j *batchv1.Job, unended bool) {
	a := c.jobs[j.UID]
	open := a != nil && a.Account != nil && a.Job.UID != ""
	switch finished := objects.Finished(j); {
	case finished && (open || unended):
		c.JobEnded(p, j, &j.Status)
	case !finished && !open:
		describe(p, c.open(j.UID), j)
		c.changed[j.UID] = true
	}
}

// JobGone takes in that the object of a Job is gone. One that had not ended is closed when its pods have.
func (c *Ledger) JobGone(p *loop.Pass, key string, j *batchv1.Job) {
	defer ForgetCreator(p, key, j.UID)
	if objects.Finished(j) {
		if !job.Managed(j) {
			c.JobElsewhere(p, j, false) // that it has ended was not seen
		}
		return
	}
	a := c.open(j.UID)
	describe(p, a, j)
	a.Gone, c.changed[j.UID] = true, true
}

// JobSetEnded takes in that a JobSet has finished, or is gone before it had: result is then wire.Deleted.
func (c *Ledger) JobSetEnded(p *loop.Pass, js *jobsetv1.JobSet, result, reason string) {
	namespace, _ := p.Get(store.Key(objects.Namespaces, "", js.Namespace))
	c.ended = append(c.ended, wire.Job{
		Kind: wire.KindJobSet, Namespace: js.Namespace, NamespaceUID: namespace.UID, Name: js.Name, UID: string(js.UID),
		User: Creator(p, objects.Key(objects.JobSets, js), js.UID), Labels: boundedLabels(js.Labels), Created: js.CreationTimestamp,
		Ended: second(p.Now), Result: result, Reason: boundedReason(reason),
	})
}

func (c *Ledger) close(p *loop.Pass, uid types.UID, end wire.Job) {
	c.ended = append(c.ended, end)
	p.Figures.JobEnded(end)
	delete(c.jobs, uid)
	p.Delete(accountKey(uid))
}

// Due implements loop.Controller.
func (c *Ledger) Due(p *loop.Pass, _ string) error {
	c.prune = true
	c.timers.Set(c, "", p.Now.Add(pruneInterval))
	return nil
}

// Dirty implements loop.Controller.
func (c *Ledger) Dirty() bool { return c.prune || len(c.changed) > 0 }

// Finish implements loop.Finisher: it writes what the pass has changed.
func (c *Ledger) Finish(p *loop.Pass) error {
	for _, uid := range slices.Sorted(maps.Keys(c.changed)) {
		a := c.jobs[uid]
		switch {
		case a == nil || a.Account == nil: // closed
		case a.Gone && a.running == 0 && a.Job.UID != "":
			c.close(p, uid, a.Close(nil, nil, p.Now))
		case a.ended:
			j, ok, err := p.Jobs.Get(store.Key(objects.Jobs, a.Job.Namespace, a.Job.Name))
			if err != nil {
				return err
			}
			if ok && j.UID == uid {
				c.JobEnded(p, j, &j.Status)
			}
		default:
			value, err := json.Marshal(a.Account)
			if err != nil {
				return err
			}
			p.PutStored(store.Object{Key: accountKey(uid), UID: string(uid), Value: value})
		}
	}
	clear(c.changed)
	if len(c.ended) > 0 {
		if err := c.log.Append(p, p.Snapshot().Version(), c.ended); err != nil {
			return err
		}
		c.ended, c.prune = nil, true
	}
	if c.prune {
		done, err := c.log.Prune(p, p.Now, loop.Budget/2)
		if err != nil {
			return err
		}
		c.prune = !done
	}
	return nil
}

// DropUsages removes what was stored about pods that are gone, and who has created objects that are, since a crash can
// come between the two removals.
func DropUsages(ctx context.Context, s *store.Store) error {
	return s.Update(ctx, func(tx *store.Tx) (err error) {
		tx.Range(objects.Usages+"/", "", func(o store.Object) bool {
			var use *Pod
			if use, err = DecodePod(o.Value); err != nil {
				return false
			}
			if p, _ := tx.Get(use.Key); p.UID != o.UID {
				tx.Delete(o.Key)
			}
			return true
		})
		tx.Range(storage.CreatorPrefix, "", func(o store.Object) bool {
			if of, _ := tx.Get(strings.TrimPrefix(o.Key, storage.CreatorPrefix)); of.UID != o.UID {
				tx.Delete(o.Key)
			}
			return true
		})
		return err
	})
}
