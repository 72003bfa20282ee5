package upkeep

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// JobTTL deletes finished Jobs whose time has come: by JobSpec.TTLSecondsAfterFinished, or by a setting.
type JobTTL struct {
	loop.Base
	loop.NoJobs
	timers *loop.Timers
	jobs   Jobs
	ttl    job.TTL
	// told are the Jobs of which an event says that a setting removes them.
	told map[string]bool
}

// Jobs takes in Jobs that were changed.
type Jobs interface {
	// Set folds in a Job as it now is.
	Set(p *loop.Pass, key string, j *batchv1.Job) error
}

// NewJobTTL makes the controller.
func NewJobTTL(timers *loop.Timers, jobs Jobs, ttl job.TTL) *JobTTL {
	return &JobTTL{timers: timers, jobs: jobs, ttl: ttl, told: map[string]bool{}}
}

// Rebuild implements loop.Controller.
func (c *JobTTL) Rebuild(*store.Snapshot, time.Time) error {
	clear(c.told)
	return nil
}

// note notes when a Job expires, if it does. It reports whether a setting says so, and nobody was told yet.
func (c *JobTTL) note(key string, j *batchv1.Job) (news bool) {
	expires, ok := c.ttl.Expires(j)
	c.timers.Set(c, key, expires)
	if ttl, _ := c.ttl.Of(j); !ok || ttl == 0 {
		delete(c.told, key)
		return false
	}
	news = !c.told[key]
	c.told[key] = true
	return news
}

// JobRecovered implements loop.JobFollower.
func (c *JobTTL) JobRecovered(key string, j *batchv1.Job) { c.note(key, j) }

// JobChanged implements loop.JobFollower. The object does not say when a setting removes it, so an event does.
func (c *JobTTL) JobChanged(p *loop.Pass, key string, j *batchv1.Job) error {
	if !c.note(key, j) {
		return nil
	}
	expires, _ := c.ttl.Expires(j)
	ttl, setting := c.ttl.Of(j)
	return p.Event(objects.JobReference(j), events.JobController, corev1.EventTypeNormal, "Expires",
		fmt.Sprintf("Will be removed at %s, %s after its end (jobd serve --%s)", expires.UTC().Format(time.RFC3339), ttl, setting))
}

// JobGone implements loop.JobFollower.
func (c *JobTTL) JobGone(_ *loop.Pass, key string, _ *batchv1.Job) {
	c.timers.Set(c, key, time.Time{})
	delete(c.told, key)
}

// Due deletes a Job and its pods, the pods first.
func (c *JobTTL) Due(p *loop.Pass, key string) error {
	j, ok, err := p.Jobs.Get(key)
	if err != nil || !ok {
		return err
	}
	at, ok := c.ttl.Expires(j)
	if !ok {
		return nil
	}
	if at.After(p.Now) { // it has been changed, or the clock was set back
		c.timers.Set(c, key, at)
		return nil
	}
	p.Figures.JobExpired(p.Now.Sub(at))
	storage.MarkDeleted(j, p.Now, 0)
	storage.SetPropagation(j, metav1.DeletePropagationForeground)
	p.Jobs.Changed(key, j)
	return c.jobs.Set(p, key, j)
}
