package jobsets

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	api "github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/door"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/jobset"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/store"
)

// create creates what a JobSet lacks: its Service and its claims before its Jobs. What is refused is tried again later, and what
// comes after it too. If not all pods may start that start together, no Job is resumed either.
func (c *JobSets) create(p *loop.Pass, js *jobsetv1.JobSet, rec *record, d *jobset.Decision) error {
	refused, err := c.createService(p, js, d.Service)
	if err == nil && !refused {
		if refused, err = c.readyGang(p, js, rec, d); refused {
			d.Resume = nil
		}
	}
	if err == nil && !refused {
		refused, err = c.createClaims(p, js, d.Claims)
	}
	if err == nil && !refused {
		refused, err = c.createJobs(p, js, rec, d.Create)
	}
	if !refused || err != nil {
		rec.refusals = 0
		return err
	}
	retry := p.Now.Add(min(lastRetry, firstRetry<<min(rec.refusals, 10)))
	rec.refusals++
	if d.Wake.IsZero() || retry.Before(d.Wake) {
		c.timers.Set(c, rec.key, retry)
	}
	return nil
}

// createService creates the Service by which the pods find each other, unless there is one of that name, whoever has made it.
func (c *JobSets) createService(p *loop.Pass, js *jobsetv1.JobSet, wanted bool) (refused bool, err error) {
	key := store.Key(objects.Services, js.Namespace, api.Subdomain(js))
	if !wanted || p.Size(key) > 0 {
		return false, nil
	}
	return c.put(p, js, key, api.NewService(js), door.Services, "HeadlessServiceCreationFailed")
}

// createClaims creates the claims that the Jobs share, unless there are some of these names.
func (c *JobSets) createClaims(p *loop.Pass, js *jobsetv1.JobSet, wanted bool) (refused bool, err error) {
	for i := range js.Spec.VolumeClaimPolicies {
		policy := &js.Spec.VolumeClaimPolicies[i]
		for k := range policy.Templates {
			claim := api.NewClaim(js, policy, &policy.Templates[k])
			key := objects.Key(objects.Claims, claim)
			if !wanted || p.Size(key) > 0 {
				continue
			}
			if refused, err := c.put(p, js, key, claim, door.ClaimsOfSets, "PVCCreationFailed"); refused || err != nil {
				return refused, err
			}
			c.claims.Changed(key)
		}
	}
	return false, nil
}

// put creates an object.
func (c *JobSets) put(p *loop.Pass, js *jobsetv1.JobSet, key string, obj objects.Object, kind door.Kind, reason string) (bool, error) {
	obj.SetUID(uuid.NewUUID())
	obj.SetCreationTimestamp(metav1.NewTime(p.Now))
	in, refusal, err := c.doors.Open(p, js.Namespace, kind)
	if err == nil && refusal == nil {
		refusal, err = in.Admit(obj)
	}
	if err != nil {
		return false, err
	}
	if refusal != nil {
		return true, event(p, js, jobset.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: refusal.Error()})
	}
	return false, p.Put(key, obj)
}

// createJobs creates Jobs, until one is refused.
func (c *JobSets) createJobs(p *loop.Pass, js *jobsetv1.JobSet, rec *record, wanted []jobset.New) (refused bool, err error) {
	if len(wanted) == 0 {
		return false, nil
	}
	in, refusal, err := c.doors.Open(p, js.Namespace, door.JobsOfSets)
	if err != nil {
		return false, err
	}
	user := history.Creator(p, rec.key, js.UID)
	for i, n := range wanted {
		if i > 0 && p.Spent() {
			c.dirty.Add(rec.key)
			return false, nil
		}
		j := api.NewJob(js, &js.Spec.ReplicatedJobs[n.Group], n.Index)
		j.UID, j.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(p.Now)
		key := objects.Key(objects.Jobs, j)
		if refusal == nil {
			if p.Size(key) > 0 {
				refusal = apierrors.NewAlreadyExists(schema.GroupResource{Group: "batch", Resource: "jobs"}, j.Name)
			} else if refusal, err = in.Admit(j); err != nil {
				return false, err
			}
		}
		if refusal != nil {
			message := fmt.Sprintf("job %q creation failed with error: %v", j.Name, refusal)
			return true, event(p, js, jobset.Event{Type: corev1.EventTypeWarning, Reason: "JobCreationFailed", Message: message})
		}
		p.Jobs.Changed(key, j)
		if err := p.Jobs.Write(key); err != nil { // a revision of its own, before its pods'
			return false, err
		}
		crash.At("jobset.job.created")
		if user != "" {
			p.PutStored(store.Object{Key: storage.CreatorKey(key), UID: string(j.UID), Value: []byte(user)})
		}
		if err := c.jobs.Set(p, key, j); err != nil {
			return false, err
		}
	}
	return false, nil
}
