package jobsets

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	api "github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/daemon/door"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/jobset"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Gangs are pods that start together.
type Gangs interface {
	// Put writes a PodGroup.
	Put(p *loop.Pass, pg *schedulingv1beta1.PodGroup) error
}

// readyGang prepares for the pods of a JobSet to start together: their PodGroup is there, and ResourceQuotas allow all of them. A part
// of them would only keep from others what they wait for in the same way, for ever.
func (c *JobSets) readyGang(p *loop.Pass, js *jobsetv1.JobSet, rec *record, d *jobset.Decision) (refused bool, err error) {
	if !api.Gang(js) {
		return false, nil
	}
	if refused, err = c.putGang(p, js, len(d.Create) > 0); refused || err != nil || api.Suspended(js) || len(d.Create)+len(d.Resume) == 0 {
		return refused, err
	}
	in, refusal, err := c.doors.Open(p, js.Namespace, door.Pods)
	if err == nil && refusal == nil {
		refusal, err = in.AllTogether(podsOf(js, rec))
	}
	if err != nil || refusal == nil {
		return false, err
	}
	return true, event(p, js, jobset.Event{
		Type: corev1.EventTypeWarning, Reason: "JobCreationFailed", Message: fmt.Sprintf("its pods start together (%s): %v", api.GangAnnotation, refusal),
	})
}

// podsOf returns pods like those that start together and are not there.
func podsOf(js *jobsetv1.JobSet, rec *record) (all []door.Like) {
	for i := range js.Spec.ReplicatedJobs {
		group := &js.Spec.ReplicatedJobs[i]
		n := (rec.Missing(group) + rec.Held(group)) * int(api.AtOnce(&group.Template.Spec))
		if !api.InGang(js, group) || n == 0 {
			continue
		}
		j := api.NewJob(js, group, 0)
		j.UID = js.UID // which it has to have
		batch.SetJobDefaults(j)
		batch.PrepareJob(j)
		all = append(all, door.Like{Object: job.NewPodFor(j, job.NewPod{Index: -1}, "gang"), Times: n})
	}
	return all
}

// putGang creates the PodGroup of an attempt, instead of that of the one before. While the JobSet is suspended, its pods are to start together
// again.
func (c *JobSets) putGang(p *loop.Pass, js *jobsetv1.JobSet, wanted bool) (refused bool, err error) {
	key := store.Key(objects.PodGroups, js.Namespace, api.GangName(js, js.Status.Restarts))
	pg := &schedulingv1beta1.PodGroup{}
	there := p.Size(key) > 0
	if there && (wanted || api.Suspended(js)) {
		if _, err := objects.Read(p, key, pg); err != nil {
			return false, err
		}
	}
	switch {
	case there && !wanted && !api.Suspended(js), !there && !wanted:
		return false, nil
	case there && !metav1.IsControlledBy(pg, js):
		taken := apierrors.NewAlreadyExists(schema.GroupResource{Group: schedulingv1beta1.GroupName, Resource: "podgroups"}, pg.Name)
		return true, event(p, js, jobset.Event{Type: corev1.EventTypeWarning, Reason: "JobCreationFailed", Message: taken.Error()})
	case there && api.Suspended(js) && meta.RemoveStatusCondition(&pg.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled):
		return false, c.gangs.Put(p, pg)
	case there:
		return false, nil
	}
	if err := dropFormerGang(p, js); err != nil {
		return false, err
	}
	pg = api.NewGang(js)
	pg.UID, pg.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(p.Now)
	in, refusal, err := c.doors.Open(p, js.Namespace, door.PodGroups)
	if err == nil && refusal == nil {
		refusal, err = in.Admit(pg)
	}
	if err != nil {
		return false, err
	}
	if refusal != nil {
		return true, event(p, js, jobset.Event{Type: corev1.EventTypeWarning, Reason: "JobCreationFailed", Message: refusal.Error()})
	}
	return false, c.gangs.Put(p, pg)
}

// dropFormerGang deletes the PodGroup of the attempt before, unless it is another's that has its name.
func dropFormerGang(p *loop.Pass, js *jobsetv1.JobSet) error {
	if js.Status.Restarts == 0 {
		return nil
	}
	key, pg := store.Key(objects.PodGroups, js.Namespace, api.GangName(js, js.Status.Restarts-1)), &schedulingv1beta1.PodGroup{}
	there, err := objects.Read(p, key, pg)
	if err == nil && there && metav1.IsControlledBy(pg, js) {
		p.Delete(key)
	}
	return err
}
