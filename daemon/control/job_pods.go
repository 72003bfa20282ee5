package control

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/door"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// showOrphans folds in the pods that a new Job may adopt. A generated selector matches no pod that is older than the
// Job (JobSpec.ManualSelector).
func (c *jobs) showOrphans(p *loop.Pass, j *batchv1.Job) error {
	rec, ok := c.known[j.UID]
	if !ok {
		return nil
	}
	var failed error
	p.Snapshot().Range(store.Key(objects.Pods, j.Namespace, ""), "", func(o store.Object) bool {
		part := &corev1.Pod{}
		if failed = scheme.DecodePart(o.Value, objects.PodClaimed, part); failed != nil {
			failed = fmt.Errorf("%s: %w", o.Key, failed)
			return false
		}
		if metav1.GetControllerOfNoCopy(part) != nil || !rec.Adopts(part.Labels) {
			return true // most are of other Jobs, and there may be very many
		}
		pod := &corev1.Pod{}
		if failed = objects.Decode(o, pod); failed == nil {
			c.pods.set(o.Key, pod, j.UID)
		}
		return failed == nil
	})
	return failed
}

// changePod changes a pod of a Job, if it is still there.
func (c *jobs) changePod(p *loop.Pass, j *batchv1.Job, ref job.Ref, change func(*corev1.Pod)) error {
	key := store.Key(objects.Pods, j.Namespace, ref.Name)
	pod, ok, err := p.Pods.Get(key)
	if err != nil || !ok || pod.UID != ref.UID {
		return err
	}
	change(pod)
	p.Pods.Changed(key, pod)
	return c.pods.Touch(p, key, pod)
}

// createPods creates the pods that were decided on, up to the first that is refused.
func (c *jobs) createPods(p *loop.Pass, rec *jobRecord, j *batchv1.Job, wanted []job.NewPod) (refused bool, err error) {
	if len(wanted) == 0 {
		return false, nil
	}
	in, refusal, err := c.doors.Open(p, j.Namespace, door.Pods)
	if err != nil {
		return false, err
	} else if refusal != nil {
		return true, c.creationRefused(p, rec, j, refusal)
	}
	group, refusal, err := c.gangs.Group(p, j, rec.Started())
	if err != nil {
		return false, err
	} else if refusal != nil {
		return true, c.creationRefused(p, rec, j, refusal)
	}
	if group != nil && group.Spec.SchedulingPolicy.Gang != nil {
		// A part of a gang would only keep from others what they wait for in the same way, for ever.
		refusal, err := in.Together(job.NewPodFor(j, wanted[0], utilrand.String(5)), rec.Lacks(int(group.Spec.SchedulingPolicy.Gang.MinCount)))
		if err != nil {
			return false, err
		} else if refusal != nil {
			return true, c.creationRefused(p, rec, j, refusal)
		}
	}
	for _, n := range wanted {
		pod := job.NewPodFor(j, n, utilrand.String(5))
		key := objects.Key(objects.Pods, pod)
		for _, taken, err := p.Pods.Get(key); taken || err != nil; _, taken, err = p.Pods.Get(key) {
			if err != nil {
				return false, err
			}
			pod = job.NewPodFor(j, n, utilrand.String(5))
			key = objects.Key(objects.Pods, pod)
		}
		if group != nil {
			job.Join(pod, group)
		}
		if refusal, err := in.Admit(pod); err != nil {
			return false, err
		} else if refusal != nil {
			return true, c.creationRefused(p, rec, j, refusal)
		}
		p.Pods.Changed(key, pod)
		p.Figures.PodCreated(j)
		c.pods.set(key, pod, j.UID)
		if err := jobEvent(p, j, job.Created(pod.Name)); err != nil {
			return false, err
		}
	}
	c.enqueue(j.UID)
	c.retryRefused(j.Namespace)
	return false, nil
}

// creationRefused ends an attempt to create pods, which will be repeated later, or as soon as a ResourceQuota that has refused
// them allows more.
func (c *jobs) creationRefused(p *loop.Pass, rec *jobRecord, j *batchv1.Job, refusal error) error {
	if door.OverQuota(refusal) {
		c.refusedByQuota.Push(j.Namespace, j.UID)
	}
	rec.CreationRefused(p.Now)
	p.Figures.PodRefused(j)
	c.enqueue(j.UID)
	return jobEvent(p, j, job.CreationFailed(refusal))
}
