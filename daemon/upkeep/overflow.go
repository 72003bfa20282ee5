package upkeep

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Overflow hands Jobs to a cluster that could not start here in time (clusters.OverflowTo). Such a Job is held first, as one that is moved:
// no pod of it can start any more. Once that is committed, and its pods are gone, it is the cluster's. If a pod was bound meanwhile, it
// stays.
type Overflow struct {
	loop.Base
	loop.NoJobs
	timers *loop.Timers
	jobs   Jobs
}

// NewOverflow makes the controller.
func NewOverflow(timers *loop.Timers, jobs Jobs) *Overflow {
	return &Overflow{timers: timers, jobs: jobs}
}

func (c *Overflow) note(key string, j *batchv1.Job) {
	if clusters.OverflowTo(j) != "" {
		c.timers.Set(c, key, overflowDue(j))
	}
}

// overflowDue returns when the next step towards the cluster is due; zero if none is.
func overflowDue(j *batchv1.Job) time.Time {
	s := &j.Status
	if clusters.IsOverflowed(j) || j.DeletionTimestamp != nil || batch.End(s) != nil || batch.Ending(s) != nil {
		return time.Time{}
	}
	if m := batch.MovingOf(j.Annotations); m != nil {
		if m.To != clusters.Manager(clusters.OverflowTo(j)) || s.StartTime != nil || s.Active+ptr.Deref(s.Terminating, 0) > 0 {
			return time.Time{}
		}
		return j.CreationTimestamp.Time
	}
	_, paused := batch.PausedSince(s)
	after, ok := clusters.OverflowAfter(j.Annotations)
	if s.StartTime == nil || ptr.Deref(j.Spec.Suspend, false) || paused || batch.ShowsBegun(j) || !ok {
		return time.Time{}
	}
	return s.StartTime.Add(after)
}

// JobRecovered implements loop.JobFollower.
func (c *Overflow) JobRecovered(key string, j *batchv1.Job) { c.note(key, j) }

// JobChanged implements loop.JobFollower.
func (c *Overflow) JobChanged(_ *loop.Pass, key string, j *batchv1.Job) error {
	c.note(key, j)
	return nil
}

// JobGone implements loop.JobFollower.
func (c *Overflow) JobGone(_ *loop.Pass, key string, _ *batchv1.Job) {
	c.timers.Set(c, key, time.Time{})
}

// unserved is how long a Job whose cluster no forwarder serves waits on, until that is looked at again. It may still start here.
const unserved = 10 * time.Second

// Due takes the next step.
func (c *Overflow) Due(p *loop.Pass, key string) error {
	j, ok, err := p.Jobs.Get(key)
	if err != nil || !ok {
		return err
	}
	switch at := overflowDue(j); {
	case at.IsZero():
		return nil
	case at.After(p.Now): // it has been changed, or the clock was set back
		c.timers.Set(c, key, at)
		return nil
	}
	begun, err := history.Begun(p.Snapshot(), j)
	if err != nil {
		return err
	}
	held := batch.MovingOf(j.Annotations) != nil
	if !held && !begun {
		if served, err := objects.Forwarder(p.Snapshot(), clusters.OverflowTo(j), p.Now); err != nil || !served {
			c.timers.Set(c, key, p.Now.Add(unserved))
			return err
		}
	}
	switch {
	case begun && !held:
		return nil
	case begun:
		batch.EndMove(j)
	case !held:
		err = c.hold(p, j)
	case !left(p.Snapshot(), j): // of what this pass has written nothing counts yet
		c.timers.Set(c, key, p.Now.Add(time.Second))
		return nil
	default:
		err = c.handOver(p, j)
	}
	if err != nil {
		return err
	}
	p.Jobs.Changed(key, j)
	return c.jobs.Set(p, key, j)
}

func (c *Overflow) hold(p *loop.Pass, j *batchv1.Job) error {
	if err := batch.BeginMove(j, clusters.Manager(clusters.OverflowTo(j))); err != nil {
		return err
	}
	after, _ := clusters.OverflowAfter(j.Annotations)
	return p.Event(objects.JobReference(j), events.JobController, corev1.EventTypeNormal, "Overflows",
		fmt.Sprintf("No pod could start here within %s: the Job goes to the cluster %s", after, clusters.OverflowTo(j)))
}

// left reports whether a Job is held as it was committed, and has no pods.
func left(s *store.Snapshot, j *batchv1.Job) bool {
	was := &batchv1.Job{}
	if ok, err := objects.Read(s, objects.Key(objects.Jobs, j), was); err != nil || !ok || batch.MovingOf(was.Annotations) == nil {
		return false
	}
	none := true
	s.Owned(string(j.UID), store.Key(objects.Pods, j.Namespace, ""), "", func(string) bool {
		none = false
		return false
	})
	return none
}

func (c *Overflow) handOver(p *loop.Pass, j *batchv1.Job) error {
	batch.EndMove(j)
	metav1.SetMetaDataAnnotation(&j.ObjectMeta, clusters.OverflowedAnnotation, p.Now.UTC().Format(time.RFC3339))
	j.Status.Conditions = slices.DeleteFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended })
	return p.Event(objects.JobReference(j), events.JobController, corev1.EventTypeNormal, "Overflowed",
		"From now on the Job is that of the cluster "+clusters.OverflowTo(j))
}
