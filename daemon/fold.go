package daemon

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/store"
)

// fold takes in what others have written since the last pass: the API, that is. What a pass writes itself it folds in
// as it goes.
func (p *pass) fold() error {
	var failed error
	err := p.tx.Changes(p.folded, func(c store.Change) bool {
		failed = p.foldChange(c)
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("fold changes: %w", err)
	}
	return nil
}

func (p *pass) foldChange(c store.Change) error {
	if c.Deleted {
		p.goneFrom(c.Object.Key)
		p.objectGone(c.Object)
	} else if err := p.foldOwners(c); err != nil {
		return err
	}
	p.foldContents(c)
	resource, _, _ := strings.Cut(c.Object.Key, "/")
	switch resource {
	case nodes:
		return p.foldNode(c)
	case jobs:
		return p.foldJob(c)
	case cronJobs:
		return p.foldCronJob(c)
	case pods:
		return p.foldPod(c)
	case namespaces:
		return p.foldNamespace(c)
	case workloads:
		return p.foldWorkload(c)
	case podGroups:
		return p.foldPodGroup(c)
	case configMaps, secrets:
		p.foldFileObject(c)
	}
	return nil
}

func (p *pass) foldJob(c store.Change) error {
	if c.Deleted {
		p.jobGone(types.UID(c.Object.UID), c.Object.Key)
		return nil
	}
	j, ok, err := p.jobs.Get(c.Object.Key)
	if err != nil || !ok || string(j.UID) != c.Object.UID {
		return err // it has changed again, or is gone, or another one: that change comes too
	}
	if err := p.setJob(c.Object.Key, j); err != nil {
		return err
	}
	if c.Previous == nil && !job.Managed(j) {
		p.figures.add(1, p.metrics.jobsElsewhere, *j.Spec.ManagedBy)
	}
	if c.Previous == nil && j.Spec.ManualSelector != nil && *j.Spec.ManualSelector {
		return p.showOrphans(j)
	}
	return nil
}

// setJob folds in a Job as it now is, and looks at what is due for it.
func (p *pass) setJob(key string, j *batchv1.Job) error {
	if _, known := p.records.jobs[j.UID]; known || !finished(j) {
		if err := p.records.setJob(p.tx.Snapshot, key, j, p.now); err != nil {
			return err
		}
		p.records.dirtyJobs.add(j.UID)
	}
	p.records.noteJob(key, j)
	p.tellCronJob(j)
	return p.resizeGang(key, j)
}

func (p *pass) foldPod(c store.Change) error {
	if c.Deleted {
		gone := newPod()
		if err := decode(c.Object, gone); err != nil {
			return err
		}
		p.podGone(gone, c.Object.Key)
		return nil
	}
	obj, ok, err := p.pods.Get(c.Object.Key)
	if err != nil || !ok || string(obj.UID) != c.Object.UID {
		return err
	}
	if showsItself(obj) {
		p.records.refresh.add(c.Object.Key)
	}
	p.records.watchTaints(c.Object.Key) // it may tolerate more than before
	return p.touch(c.Object.Key, obj)
}

// touch folds in a pod as it now is and makes sure that it and its Job are looked at.
func (p *pass) touch(key string, pod *corev1.Pod) error {
	owner, err := p.jobOf(pod)
	if err != nil {
		return err
	}
	p.records.setPod(key, pod, owner)
	p.records.dirtyPods.add(key)
	if owner != "" {
		p.records.dirtyJobs.add(owner)
	}
	return nil
}

// jobOf gives the UID of the Job that is to know of a pod, and makes sure that there is a record of it: the one that
// controls it or, for an orphan, one whose selector matches (JobSpec.Selector).
func (p *pass) jobOf(pod *corev1.Pod) (types.UID, error) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		adopts := p.records.selecting(pod)
		if adopts == "" && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
			p.records.abandoned.add(keyOf(pods, pod))
		}
		return adopts, nil
	}
	uid := controllingJob(pod)
	if uid == "" || p.records.jobs[uid] != nil {
		return uid, nil
	}
	// Its record was dropped when it finished, or it is gone.
	key := store.Key(jobs, pod.Namespace, owner.Name)
	j, ok, err := p.jobs.Get(key)
	switch {
	case err != nil:
		return "", err
	case !ok || j.UID != uid:
		if pod.DeletionTimestamp == nil || slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
			p.records.abandoned.add(keyOf(pods, pod))
		}
		return "", nil
	}
	return uid, p.records.setJob(p.tx.Snapshot, key, j, p.now)
}

// showOrphans shows a new Job the pods that it may adopt. A generated selector matches none that were there before
// the Job (JobSpec.ManualSelector).
func (p *pass) showOrphans(j *batchv1.Job) error {
	rec, ok := p.records.jobs[j.UID]
	if !ok {
		return nil
	}
	var failed error
	p.tx.Range(store.Key(pods, j.Namespace, ""), "", func(o store.Object) bool {
		pod := newPod()
		if failed = decode(o, pod); failed != nil {
			return false
		}
		if metav1.GetControllerOfNoCopy(pod) == nil && rec.Adopts(pod.Labels) {
			p.records.setPod(o.Key, pod, j.UID)
		}
		return true
	})
	return failed
}

// jobGone follows the end of a Job: what it left behind is collected.
func (p *pass) jobGone(uid types.UID, key string) {
	p.records.dropJob(uid, key)
	p.forgetChild(uid)
	p.delete(memories + strings.TrimPrefix(key, jobs))
	p.ownerGone(uid)
	p.effects = append(p.effects, effect{forgetJob: uid})
}

// podGone follows the end of a pod's object: whatever it still has on this machine is removed.
func (p *pass) podGone(obj *corev1.Pod, key string) {
	p.records.dropPod(key, obj.UID, controllingJob(obj))
	gone := effect{pod: obj, forget: true}
	if obj.Spec.NodeName != "" && !pod.Done(obj) { // it was deleted by force
		gone.actions = []pod.Action{{Kind: pod.TearDown}}
	}
	p.effects = append(p.effects, gone)
}
