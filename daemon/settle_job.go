package daemon

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/store"
)

// settleJob decides for a Job and carries the decision out.
func (p *pass) settleJob(uid types.UID) error {
	rec, ok := p.records.jobs[uid]
	if !ok {
		return nil
	}
	begin := time.Now()
	d := job.Decide(rec.Record, p.now, p.settings)
	p.records.due.Set(timerKey{dueJob, rec.key}, d.Wake)
	if err := p.carryOut(rec, d); err != nil {
		return fmt.Errorf("%s: %w", rec.key, err)
	}
	p.figures.syncs = append(p.figures.syncs, synced{rec.Mode(), action(d), time.Since(begin)})
	p.shrinkGang(rec)
	if d.More {
		p.records.dirtyJobs.add(uid)
	} else if rec.Finished() && rec.Empty() {
		p.records.forgetJob(uid)
	}
	return nil
}

// carryOut does what was decided for a Job, in the order of the decision's fields, and folds it in.
func (p *pass) carryOut(rec *jobRecord, d job.Decision) error {
	j, ok, err := p.jobs.Get(rec.key)
	if err != nil || !ok {
		return err
	}
	for _, ref := range d.Adopt {
		if err := p.changePod(j, ref, func(pod *corev1.Pod) { job.Adopt(j, pod) }); err != nil {
			return err
		}
	}
	for _, ref := range d.Orphan {
		if err := p.changePod(j, ref, func(pod *corev1.Pod) { job.Orphan(j.UID, pod) }); err != nil {
			return err
		}
		rec.DropPod(ref.UID)
	}
	if refused, err := p.create(rec, j, d.Create); err != nil || refused {
		return err // the rest was decided for all of them
	}
	p.countDecision(j, d)
	for _, r := range d.Release {
		if err := p.changePod(j, r.Ref, func(pod *corev1.Pod) {
			if job.Untrack(pod) {
				p.countFinalizer(pod, "delete")
			}
		}); err != nil {
			return err
		}
	}
	for _, ref := range d.Delete {
		if _, err := p.deletePod(store.Key(pods, j.Namespace, ref.Name), ref.UID); err != nil {
			return err
		}
	}
	for _, e := range d.Events {
		if err := p.jobEvent(j, e); err != nil {
			return err
		}
	}
	if n := len(d.Status); n > 0 && job.End(&d.Status[n-1]) != nil {
		p.delete(memoryKey(j)) // nothing is decided from it any more
	} else if d.Memory != nil {
		if err := p.putMemory(j, d.Memory); err != nil {
			return err
		}
	}
	for i, status := range d.Status {
		j.Status = status
		p.jobs.Changed(rec.key, j)
		if i < len(d.Status)-1 {
			if err := p.jobs.Write(rec.key); err != nil {
				return err
			}
		}
	}
	if len(d.Status) > 0 {
		return p.setJob(rec.key, j)
	}
	return nil
}

// changePod changes a pod of a Job, if it is still there.
func (p *pass) changePod(j *batchv1.Job, ref job.Ref, change func(*corev1.Pod)) error {
	key := store.Key(pods, j.Namespace, ref.Name)
	pod, ok, err := p.pods.Get(key)
	if err != nil || !ok || pod.UID != ref.UID {
		return err
	}
	change(pod)
	p.pods.Changed(key, pod)
	return p.touch(key, pod)
}

// create makes the pods that were decided on. The first that is refused ends it.
func (p *pass) create(rec *jobRecord, j *batchv1.Job, wanted []job.NewPod) (refused bool, err error) {
	if len(wanted) == 0 {
		return false, nil
	}
	if refusal, err := p.refusal(j.Namespace); err != nil {
		return false, err
	} else if refusal != nil {
		return true, p.creationRefused(rec, j, refusal)
	}
	references, err := storage.NewPodReferences(p.tx.Snapshot)
	if err != nil {
		return false, err
	}
	group, refusal, err := p.group(rec, j, references)
	if err != nil {
		return false, err
	} else if refusal != nil {
		return true, p.creationRefused(rec, j, refusal)
	}
	for _, n := range wanted {
		pod := job.NewPodFor(j, n, utilrand.String(5))
		key := keyOf(pods, pod)
		for _, taken, err := p.pods.Get(key); taken || err != nil; _, taken, err = p.pods.Get(key) {
			if err != nil {
				return false, err
			}
			pod = job.NewPodFor(j, n, utilrand.String(5))
			key = keyOf(pods, pod)
		}
		if group != nil {
			job.Join(pod, group)
		}
		core.SetPodDefaults(pod)
		if refusal := references.Resolve(j.Namespace, &pod.Spec); refusal != nil {
			return true, p.creationRefused(rec, j, fmt.Errorf("pods %q is forbidden: %w", j.Name+"-", refusal))
		}
		core.PreparePod(pod, p.now)
		p.pods.Changed(key, pod)
		p.countCreation(j, 1, succeeded)
		p.records.setPod(key, pod, j.UID)
		if err := p.jobEvent(j, job.Created(pod.Name)); err != nil {
			return false, err
		}
	}
	p.records.dirtyJobs.add(j.UID)
	return false, nil
}

// creationRefused ends an attempt to create pods. Another one comes later.
func (p *pass) creationRefused(rec *jobRecord, j *batchv1.Job, refusal error) error {
	rec.CreationRefused(p.now)
	p.countCreation(j, 1, failed)
	p.records.dirtyJobs.add(j.UID)
	return p.jobEvent(j, job.CreationFailed(refusal))
}

// refusal says why a namespace takes no new pods, nil if it does.
func (p *pass) refusal(namespace string) (refusal, err error) {
	ns, ok, err := p.namespace(namespace)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return fmt.Errorf("namespaces %q not found", namespace), nil
	}
	if ns.DeletionTimestamp != nil {
		return fmt.Errorf("pods is forbidden: unable to create new content in namespace %s because it is being terminated", namespace), nil
	}
	return nil, nil
}

func (p *pass) jobEvent(j *batchv1.Job, e job.Event) error {
	return p.event(corev1.ObjectReference{
		Kind: "Job", APIVersion: batchv1.SchemeGroupVersion.String(),
		Namespace: j.Namespace, Name: j.Name, UID: j.UID,
	}, events.JobController, e.Type, e.Reason, e.Message)
}
