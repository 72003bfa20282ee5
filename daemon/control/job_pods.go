package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/limits"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/namespace"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// podChanged folds a pod as it now is into the record of a Job, which may no longer be the pod's own.
func (c *jobs) podChanged(rec *jobRecord, p *corev1.Pod) {
	if rec != nil {
		rec.SetPod(job.Summarize(p))
		c.enqueue(c.byKey[rec.key])
	}
}

// Drop lets a Job forget a pod that is no longer its own. It implements gc.Jobs.
func (c *jobs) Drop(owner, pod types.UID) {
	if rec, ok := c.known[owner]; ok {
		rec.DropPod(pod)
	}
}

// Adopts reports whether a Job will adopt a pod that has no controller. It implements gc.Jobs.
func (c *jobs) Adopts(p *corev1.Pod) bool { return c.adopting(p) != "" }

// adopting returns the Job that will adopt an orphan; empty if there is none. The Job that the labels of an orphan
// name does not adopt it when the orphan is done with, since it has counted it then.
func (c *jobs) adopting(p *corev1.Pod) (adopts types.UID) {
	takes := func(rec *jobRecord) bool {
		return p.DeletionTimestamp == nil && strings.HasPrefix(rec.key, store.Key(objects.Jobs, p.Namespace, "")) &&
			rec.Adopts(p.Labels)
	}
	uid := types.UID(p.Labels[batchv1.ControllerUidLabel])
	if rec, ok := c.known[uid]; ok && !objects.Done(p) && takes(rec) {
		return uid
	}
	for uid, rec := range c.selectors {
		if takes(rec) && (adopts == "" || uid < adopts) {
			adopts = uid
		}
	}
	return adopts
}

// of returns the UID of the Job that has to know of a pod, and makes sure that the Job has a record: it is the Job that
// controls the pod or, for an orphan, one whose selector matches (JobSpec.Selector).
func (c *jobs) of(p *loop.Pass, pod *corev1.Pod) (types.UID, error) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		adopts := c.adopting(pod)
		if adopts == "" && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
			c.garbage.Abandoned(objects.Key(objects.Pods, pod))
		}
		return adopts, nil
	}
	uid := objects.ControllingJob(pod)
	if uid == "" || c.known[uid] != nil {
		return uid, nil
	}
	// The record was dropped when the Job finished, or the Job is gone.
	key := store.Key(objects.Jobs, pod.Namespace, owner.Name)
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
	return uid, c.record(p.Snapshot(), key, j, p.Now)
}

// showOrphans folds in the pods that a new Job may adopt. A generated selector matches no pod that is older than the
// Job (JobSpec.ManualSelector).
func (c *jobs) showOrphans(p *loop.Pass, j *batchv1.Job) error {
	rec, ok := c.known[j.UID]
	if !ok {
		return nil
	}
	var failed error
	p.Snapshot().Range(store.Key(objects.Pods, j.Namespace, ""), "", func(o store.Object) bool {
		pod := &corev1.Pod{}
		if failed = objects.Decode(o, pod); failed != nil {
			return false
		}
		if metav1.GetControllerOfNoCopy(pod) == nil && rec.Adopts(pod.Labels) {
			c.pods.set(o.Key, pod, j.UID)
		}
		return true
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
	return c.pods.touch(p, key, pod)
}

// createPods creates the pods that were decided on, up to the first that is refused.
func (c *jobs) createPods(p *loop.Pass, rec *jobRecord, j *batchv1.Job, wanted []job.NewPod) (refused bool, err error) {
	if len(wanted) == 0 {
		return false, nil
	}
	ns, refusal, err := namespace.ForCreation(p, j.Namespace)
	if err != nil {
		return false, err
	} else if refusal != nil {
		return true, c.creationRefused(p, rec, j, refusal)
	}
	references, err := storage.NewPodReferences(p.Snapshot())
	if err != nil {
		return false, err
	}
	group, refusal, err := c.gangs.Group(p, j, rec.Started(), references)
	if err != nil {
		return false, err
	} else if refusal != nil {
		return true, c.creationRefused(p, rec, j, refusal)
	}
	ranges, err := storage.LimitRanges(p.Snapshot(), j.Namespace)
	if err != nil {
		return false, err
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
		core.SetPodDefaults(pod)
		limits.Fill(ranges, pod)
		if refusal := references.Resolve(j.Namespace, &pod.Spec); refusal != nil {
			return true, c.creationRefused(p, rec, j, fmt.Errorf("pods %q is forbidden: %w", j.Name+"-", refusal))
		}
		core.PreparePod(pod, p.Now)
		if refusal := limited(ranges, pod); refusal != nil {
			return true, c.creationRefused(p, rec, j, refusal)
		}
		if refusal := c.security.Refusal(context.Background(), ns, pod, admissionv1.Create, podsecurity.JobController); refusal != nil {
			return true, c.creationRefused(p, rec, j, refusal)
		}
		if refusal, err := quotaRefusal(p, "pods", pod); err != nil {
			return false, err
		} else if refusal != nil {
			c.refusedByQuota.Push(j.Namespace, j.UID)
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

// limited returns why a pod cannot be created with what LimitRanges have given it, or beside what they allow.
func limited(ranges []*corev1.LimitRange, pod *corev1.Pod) error {
	if len(ranges) == 0 {
		return nil
	}
	if errs := core.ValidatePod(pod); len(errs) > 0 {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), pod.Name, errs)
	}
	if refusal := limits.CheckPod(ranges, pod); refusal != nil {
		return fmt.Errorf("pods %q is forbidden: %w", pod.GenerateName, refusal)
	}
	return nil
}

// creationRefused ends an attempt to create pods, which will be repeated later.
func (c *jobs) creationRefused(p *loop.Pass, rec *jobRecord, j *batchv1.Job, refusal error) error {
	rec.CreationRefused(p.Now)
	p.Figures.PodRefused(j)
	c.enqueue(j.UID)
	return jobEvent(p, j, job.CreationFailed(refusal))
}
