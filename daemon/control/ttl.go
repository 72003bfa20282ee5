package control

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/ttl"
)

// jobTTL deletes finished Jobs whose time has come (JobSpec.TTLSecondsAfterFinished).
type jobTTL struct {
	loop.Base
	timers *loop.Timers
	jobs   *jobs
}

func newJobTTL(timers *loop.Timers, jobs *jobs) *jobTTL {
	return &jobTTL{timers: timers, jobs: jobs}
}

// note notes when a Job expires, if it does.
func (c *jobTTL) note(key string, j *batchv1.Job) {
	expires, _ := ttl.Expires(j)
	c.timers.Set(c, key, expires)
}

// forget forgets a Job that is gone.
func (c *jobTTL) forget(key string) { c.timers.Set(c, key, time.Time{}) }

// Due deletes a Job and its pods, the pods first.
func (c *jobTTL) Due(p *loop.Pass, key string) error {
	j, ok, err := p.Jobs.Get(key)
	if err != nil || !ok {
		return err
	}
	at, ok := ttl.Expires(j)
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
	return c.jobs.set(p, key, j)
}
