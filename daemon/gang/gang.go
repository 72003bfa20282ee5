// Package gang makes and follows Workloads and PodGroups, by which the pods of a Job start together or wait together
// (KEP-4671, JobSpec.Scheduling).
//
// Changes of both kinds come in, and of the Jobs and pods that they are for. What goes out are the Workloads and PodGroups that
// it creates through daemon/door and writes in the loop's passes, and the groups that the node admits as a whole.
package gang

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/daemon/door"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Gangs is the controller of Workloads and PodGroups.
type Gangs struct {
	loop.Base
	loop.NoJobs
	capacity *node.Node
	settings job.Settings
	doors    *door.Keeper

	// Workloads by the Job that they name, and PodGroups by the Workload that they name, all by their keys.
	workloads, groups references
	minCounts         map[string]int32 // of the PodGroups
}

// New makes the controller. It tells capacity which pods are a group.
func New(capacity *node.Node, settings job.Settings, doors *door.Keeper) *Gangs {
	return &Gangs{
		capacity: capacity, settings: settings, doors: doors,
		workloads: newReferences(), groups: newReferences(), minCounts: map[string]int32{},
	}
}

// Rebuild reads all Workloads and PodGroups.
func (g *Gangs) Rebuild(s *store.Snapshot, _ time.Time) error {
	if err := objects.Each(s, objects.Workloads, func(key string, w *schedulingv1beta1.Workload) error {
		g.setWorkload(key, w)
		return nil
	}); err != nil {
		return err
	}
	return objects.Each(s, objects.PodGroups, func(key string, group *schedulingv1beta1.PodGroup) error {
		g.setPodGroup(key, group)
		return nil
	})
}

// Fold takes in what clients do to Workloads and PodGroups.
func (g *Gangs) Fold(_ *loop.Pass, c loop.Change) error {
	if c.Deleted {
		return nil
	}
	switch c.Resource {
	case objects.Workloads:
		w := &schedulingv1beta1.Workload{}
		if err := objects.Decode(c.Object, w); err != nil {
			return err
		}
		g.setWorkload(c.Object.Key, w)
	case objects.PodGroups:
		group := &schedulingv1beta1.PodGroup{}
		if err := objects.Decode(c.Object, group); err != nil {
			return err
		}
		g.setPodGroup(c.Object.Key, group)
	}
	return nil
}

// Gone takes in the end of a Workload or PodGroup.
func (g *Gangs) Gone(_ *loop.Pass, o store.Object) {
	switch objects.ResourceOf(o.Key) {
	case objects.Workloads:
		g.workloads.set(o.Key, "")
	case objects.PodGroups:
		g.groups.set(o.Key, "")
		delete(g.minCounts, o.Key)
		g.capacity.DropGroup(strings.TrimPrefix(o.Key, objects.PodGroups+"/"))
	}
}

func (g *Gangs) setWorkload(key string, w *schedulingv1beta1.Workload) {
	named := ""
	if ref := w.Spec.ControllerRef; ref != nil && ref.Kind == "Job" && ref.APIGroup == batchv1.GroupName {
		named = store.Key(objects.Jobs, w.Namespace, ref.Name)
	}
	g.workloads.set(key, named)
}

func (g *Gangs) setPodGroup(key string, pg *schedulingv1beta1.PodGroup) {
	named := ""
	if ref := pg.Spec.WorkloadRef; ref != nil {
		named = store.Key(objects.Workloads, pg.Namespace, ref.WorkloadName)
	}
	g.groups.set(key, named)
	_, owner := jobset.Of(pg)
	group := node.Group{Once: owner != "", All: pg.Spec.DisruptionMode != nil && pg.Spec.DisruptionMode.All != nil}
	group.Began = group.Once && meta.IsStatusConditionTrue(pg.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	if gang := pg.Spec.SchedulingPolicy.Gang; gang != nil {
		group.Gang, group.MinCount = true, int(gang.MinCount)
		g.minCounts[key] = gang.MinCount
	}
	g.capacity.SetGroup(node.GroupKey(pg.Namespace, pg.Name), group)
}

// groupOf returns the key of a Job's PodGroup; empty if it has none or several.
func (g *Gangs) groupOf(jobKey string) string {
	of := g.workloads.by(jobKey)
	if len(of) != 1 {
		return ""
	}
	groups := g.groups.by(of[0])
	if len(groups) != 1 {
		return ""
	}
	return groups[0]
}

// Group returns the PodGroup of new pods of a Job, and creates it and its Workload if they are missing. Nil means that
// the pods are scheduled one by one. A refusal says why one of them cannot be created.
func (g *Gangs) Group(p *loop.Pass, j *batchv1.Job, started bool) (pg *schedulingv1beta1.PodGroup, refusal, err error) {
	if !job.IsGang(j, g.settings) {
		return nil, nil, nil
	}
	found := g.workloads.by(objects.Key(objects.Jobs, j))
	if len(found) == 0 && j.Spec.Scheduling == nil && started {
		return nil, nil, nil
	}
	var w *schedulingv1beta1.Workload
	switch len(found) {
	case 0:
		if w, refusal, err = g.makeWorkload(p, j); err != nil || w == nil {
			return nil, refusal, err
		}
	case 1:
		w = &schedulingv1beta1.Workload{}
		if ok, err := objects.Read(p, found[0], w); err != nil || !ok {
			return nil, nil, err
		}
	default:
		return nil, nil, event(p, j, job.WorkloadUnused(fmt.Sprintf("%d Workloads name the Job", len(found))))
	}
	switch groups := g.groups.by(objects.Key(objects.Workloads, w)); len(groups) {
	case 0:
		return g.makePodGroup(p, j, w)
	case 1:
		pg = &schedulingv1beta1.PodGroup{}
		if ok, err := objects.Read(p, groups[0], pg); err != nil || !ok {
			return nil, nil, err
		}
		return pg, nil, nil
	default:
		return nil, nil, event(p, j,
			job.WorkloadUnused(fmt.Sprintf("%d PodGroups name the Workload %s", len(groups), w.Name)))
	}
}

// makeWorkload creates the Workload of a Job. There is none if its name is taken, or after a refusal.
func (g *Gangs) makeWorkload(p *loop.Pass, j *batchv1.Job) (w *schedulingv1beta1.Workload, refusal, err error) {
	if w, err = job.NewWorkload(j); err != nil {
		return nil, nil, err
	}
	w.UID, w.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(p.Now)
	key := objects.Key(objects.Workloads, w)
	if _, taken := p.Get(key); taken {
		return nil, nil, event(p, j, job.WorkloadUnused(fmt.Sprintf("there is another Workload %s", w.Name)))
	}
	if refusal, err := g.admit(p, door.Workloads, w); refusal != nil || err != nil {
		return nil, refusal, err
	}
	g.setWorkload(key, w)
	if err := p.Put(key, w); err != nil {
		return nil, nil, err
	}
	return w, nil, event(p, j, job.WorkloadCreated(j.Name, w.Name))
}

// makePodGroup creates the PodGroup of a Job. There is none if its name is taken, the Workload has another form, or after a
// refusal.
func (g *Gangs) makePodGroup(
	p *loop.Pass, j *batchv1.Job, w *schedulingv1beta1.Workload,
) (pg *schedulingv1beta1.PodGroup, refusal, err error) {
	pg, err = job.NewPodGroup(j, w)
	if err != nil {
		return nil, nil, event(p, j, job.WorkloadUnused(err.Error()))
	}
	pg.UID, pg.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(p.Now)
	key := objects.Key(objects.PodGroups, pg)
	if _, taken := p.Get(key); taken {
		return nil, nil, event(p, j, job.WorkloadUnused(fmt.Sprintf("there is another PodGroup %s", pg.Name)))
	}
	if refusal, err := g.admit(p, door.PodGroups, pg); refusal != nil || err != nil {
		return nil, refusal, err
	}
	g.setPodGroup(key, pg)
	if err := p.Put(key, pg); err != nil {
		return nil, nil, err
	}
	return pg, nil, event(p, j, job.PodGroupCreated(j.Name, pg.Name))
}

// Put writes the PodGroup of a JobSet, whose pods wait for each other until all have started.
func (g *Gangs) Put(p *loop.Pass, pg *schedulingv1beta1.PodGroup) error {
	key := objects.Key(objects.PodGroups, pg)
	g.setPodGroup(key, pg)
	return p.Put(key, pg)
}

// admit asks whether an object may be created, and fills it in.
func (g *Gangs) admit(p *loop.Pass, kind door.Kind, obj objects.Object) (refusal, err error) {
	in, refusal, err := g.doors.Open(p, obj.GetNamespace(), kind)
	if refusal != nil || err != nil {
		return refusal, err
	}
	return in.Admit(obj)
}

// JobChanged adjusts a gang to its Job: how many pods have to start together (JobSpec.Parallelism,
// GangSchedulingPolicy.MinCount).
func (g *Gangs) JobChanged(p *loop.Pass, jobKey string, j *batchv1.Job) error {
	key := g.groupOf(jobKey)
	if key == "" {
		return nil
	}
	count, want := g.minCounts[key], job.MinCount(j)
	if count == 0 || want == 0 || count == want {
		return nil
	}
	pg := &schedulingv1beta1.PodGroup{}
	if ok, err := objects.Read(p, key, pg); err != nil || !ok || !metav1.IsControlledBy(pg, j) {
		return err
	}
	pg.Spec.SchedulingPolicy.Gang.MinCount = want
	pg.Generation++
	g.setPodGroup(key, pg)
	if err := p.Put(key, pg); err != nil {
		return err
	}
	w := &schedulingv1beta1.Workload{}
	if ok, err := objects.Read(p, g.groups.named(key), w); err != nil || !ok {
		return err
	}
	if len(w.Spec.PodGroupTemplates) != 1 || w.Spec.PodGroupTemplates[0].SchedulingPolicy.Gang == nil ||
		!metav1.IsControlledBy(w, j) {
		return nil
	}
	w.Spec.PodGroupTemplates[0].SchedulingPolicy.Gang.MinCount = want
	w.Generation++
	return p.Put(objects.Key(objects.Workloads, w), w)
}

// Shrink sets how many pods of a Job's gang there will be at a time from now on.
func (g *Gangs) Shrink(jobKey string, pods int) {
	if key := g.groupOf(jobKey); key != "" {
		g.capacity.Resize(strings.TrimPrefix(key, objects.PodGroups+"/"), pods)
	}
}

// Show records in the PodGroup of a pod whether its pods are scheduled.
func (g *Gangs) Show(p *loop.Pass, obj *corev1.Pod, c metav1.Condition) error {
	if obj.Spec.SchedulingGroup == nil || obj.Spec.SchedulingGroup.PodGroupName == nil {
		return nil
	}
	key := store.Key(objects.PodGroups, obj.Namespace, *obj.Spec.SchedulingGroup.PodGroupName)
	pg := &schedulingv1beta1.PodGroup{}
	if ok, err := objects.Read(p, key, pg); err != nil || !ok {
		return err
	}
	if meta.IsStatusConditionTrue(pg.Status.Conditions, c.Type) {
		return nil // this is final
	}
	c.ObservedGeneration, c.LastTransitionTime = pg.Generation, metav1.NewTime(p.Now)
	if !meta.SetStatusCondition(&pg.Status.Conditions, c) {
		return nil
	}
	return p.Put(key, pg)
}

// Scheduled is the condition of a group whose pods have been scheduled.
var Scheduled = metav1.Condition{
	Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue, Reason: "Scheduled",
	Message: "All required pods have been successfully scheduled",
}

// Preempted is the condition of a group whose pods make way for others.
func Preempted(message string) metav1.Condition {
	return metav1.Condition{
		Type: schedulingv1beta1.DisruptionTarget, Status: metav1.ConditionTrue,
		Reason: schedulingv1beta1.PodGroupReasonPreemptionByScheduler, Message: message,
	}
}

// Waits is the condition of a group whose pods wait.
func Waits(why string) metav1.Condition {
	return metav1.Condition{
		Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionFalse,
		Reason: schedulingv1beta1.PodGroupReasonUnschedulable, Message: conditions.Brief(why),
	}
}

func event(p *loop.Pass, j *batchv1.Job, e job.Event) error {
	return p.Event(objects.JobReference(j), events.JobController, e.Type, e.Reason, e.Message)
}
