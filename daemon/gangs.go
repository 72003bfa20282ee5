package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/scheduling"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// gangs are the Workloads by the Job that they name, and the PodGroups by their Workload, all by their keys.
type gangs struct {
	workloads, groups references
	minCounts         map[string]int32 // of the PodGroups
}

func newGangs() gangs {
	return gangs{newReferences(), newReferences(), map[string]int32{}}
}

// references tell which objects name which other one.
type references struct {
	names   map[string]string
	namedBy map[string]map[string]struct{}
}

func newReferences() references {
	return references{map[string]string{}, map[string]map[string]struct{}{}}
}

func (r references) set(key, named string) {
	if old, ok := r.names[key]; ok {
		if delete(r.namedBy[old], key); len(r.namedBy[old]) == 0 {
			delete(r.namedBy, old)
		}
		delete(r.names, key)
	}
	if named == "" {
		return
	}
	r.names[key] = named
	if r.namedBy[named] == nil {
		r.namedBy[named] = map[string]struct{}{}
	}
	r.namedBy[named][key] = struct{}{}
}

// by gives the objects that name another one.
func (r references) by(named string) []string { return slices.Sorted(maps.Keys(r.namedBy[named])) }

func (r *records) setWorkload(key string, w *schedulingv1beta1.Workload) {
	named := ""
	if ref := w.Spec.ControllerRef; ref != nil && ref.Kind == "Job" && ref.APIGroup == batchv1.GroupName {
		named = store.Key(jobs, w.Namespace, ref.Name)
	}
	r.gangs.workloads.set(key, named)
}

func (r *records) setPodGroup(key string, g *schedulingv1beta1.PodGroup) {
	named := ""
	if ref := g.Spec.WorkloadRef; ref != nil {
		named = store.Key(workloads, g.Namespace, ref.WorkloadName)
	}
	r.gangs.groups.set(key, named)
	group := node.Group{All: g.Spec.DisruptionMode != nil && g.Spec.DisruptionMode.All != nil}
	if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
		group.Gang, group.MinCount = true, int(gang.MinCount)
		r.gangs.minCounts[key] = gang.MinCount
	}
	r.node.SetGroup(node.GroupKey(g.Namespace, g.Name), group)
}

// groupOf gives the key of a Job's PodGroup, empty if it has none or several.
func (g *gangs) groupOf(jobKey string) string {
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

// readGangs reads them all from the store.
func (r *records) readGangs(s *store.Snapshot) error {
	if err := each(s, workloads, newWorkload, func(key string, w *schedulingv1beta1.Workload) error {
		r.setWorkload(key, w)
		return nil
	}); err != nil {
		return err
	}
	return each(s, podGroups, newPodGroup, func(key string, g *schedulingv1beta1.PodGroup) error {
		r.setPodGroup(key, g)
		return nil
	})
}

func (p *pass) foldWorkload(c store.Change) error {
	if c.Deleted {
		return nil // goneFrom has seen to it
	}
	w := newWorkload()
	if err := decode(c.Object, w); err != nil {
		return err
	}
	p.records.setWorkload(c.Object.Key, w)
	return nil
}

func (p *pass) foldPodGroup(c store.Change) error {
	if c.Deleted {
		return nil
	}
	g := newPodGroup()
	if err := decode(c.Object, g); err != nil {
		return err
	}
	p.records.setPodGroup(c.Object.Key, g)
	return nil
}

// gangGone follows the end of a Workload or PodGroup.
func (r *records) gangGone(resource, key, name string) {
	switch resource {
	case workloads:
		r.gangs.workloads.set(key, "")
	case podGroups:
		r.gangs.groups.set(key, "")
		delete(r.gangs.minCounts, key)
		r.node.DropGroup(name)
	}
}

// group gives the PodGroup that new pods of a Job belong to, and makes it first, and its Workload, if they are missing.
// Nil: they are scheduled one by one. A refusal says why it cannot be made.
func (p *pass) group(rec *jobRecord, j *batchv1.Job, references *storage.PodReferences) (g *schedulingv1beta1.PodGroup, refusal, err error) {
	if !job.IsGang(j, p.settings) {
		return nil, nil, nil
	}
	found := p.records.gangs.workloads.by(rec.key)
	if len(found) == 0 && j.Spec.Scheduling == nil && rec.Started() {
		return nil, nil, nil
	}
	var w *schedulingv1beta1.Workload
	switch len(found) {
	case 0:
		if w, err = p.makeWorkload(j); err != nil || w == nil {
			return nil, nil, err
		}
	case 1:
		w = newWorkload()
		if ok, err := objects.Read(p.tx, found[0], w); err != nil || !ok {
			return nil, nil, err
		}
	default:
		return nil, nil, p.jobEvent(j, job.WorkloadUnused(fmt.Sprintf("%d Workloads name the Job", len(found))))
	}
	switch groups := p.records.gangs.groups.by(keyOf(workloads, w)); len(groups) {
	case 0:
		return p.makePodGroup(j, w, references)
	case 1:
		g = newPodGroup()
		if ok, err := objects.Read(p.tx, groups[0], g); err != nil || !ok {
			return nil, nil, err
		}
		return g, nil, nil
	default:
		return nil, nil, p.jobEvent(j, job.WorkloadUnused(fmt.Sprintf("%d PodGroups name the Workload %s", len(groups), w.Name)))
	}
}

func (p *pass) makeWorkload(j *batchv1.Job) (*schedulingv1beta1.Workload, error) {
	w, err := job.NewWorkload(j)
	if err != nil {
		return nil, err
	}
	w.UID, w.CreationTimestamp, w.Generation = uuid.NewUUID(), metav1.NewTime(p.now), 1
	key := keyOf(workloads, w)
	if _, taken := p.tx.Get(key); taken {
		return nil, p.jobEvent(j, job.WorkloadUnused(fmt.Sprintf("there is another Workload %s", w.Name)))
	}
	p.records.setWorkload(key, w)
	if err := p.put(key, w); err != nil {
		return nil, err
	}
	return w, p.jobEvent(j, job.WorkloadCreated(j.Name, w.Name))
}

func (p *pass) makePodGroup(j *batchv1.Job, w *schedulingv1beta1.Workload, references *storage.PodReferences) (g *schedulingv1beta1.PodGroup, refusal, err error) {
	g, err = job.NewPodGroup(j, w)
	if err != nil { // the Workload is of another kind
		return nil, nil, p.jobEvent(j, job.WorkloadUnused(err.Error()))
	}
	if refusal := references.ResolveGroup(g); refusal != nil {
		return nil, fmt.Errorf("podgroups %q is forbidden: %w", g.Name, refusal), nil
	}
	scheduling.SetPodGroupDefaults(g)
	scheduling.PreparePodGroup(g)
	g.UID, g.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(p.now)
	key := keyOf(podGroups, g)
	if _, taken := p.tx.Get(key); taken {
		return nil, nil, p.jobEvent(j, job.WorkloadUnused(fmt.Sprintf("there is another PodGroup %s", g.Name)))
	}
	p.records.setPodGroup(key, g)
	if err := p.put(key, g); err != nil {
		return nil, nil, err
	}
	return g, nil, p.jobEvent(j, job.PodGroupCreated(j.Name, g.Name))
}

// resizeGang lets a gang follow its Job: how many pods it needs (JobSpec.Parallelism, GangSchedulingPolicy.MinCount).
func (p *pass) resizeGang(jobKey string, j *batchv1.Job) error {
	key := p.records.gangs.groupOf(jobKey)
	if key == "" {
		return nil
	}
	count, want := p.records.gangs.minCounts[key], job.MinCount(j)
	if count == 0 || want == 0 || count == want {
		return nil
	}
	g := newPodGroup()
	if ok, err := objects.Read(p.tx, key, g); err != nil || !ok || !metav1.IsControlledBy(g, j) {
		return err
	}
	g.Spec.SchedulingPolicy.Gang.MinCount = want
	g.Generation++
	p.records.setPodGroup(key, g)
	if err := p.put(key, g); err != nil {
		return err
	}
	w := newWorkload()
	if ok, err := objects.Read(p.tx, p.records.gangs.groups.names[key], w); err != nil || !ok {
		return err
	}
	if len(w.Spec.PodGroupTemplates) != 1 || w.Spec.PodGroupTemplates[0].SchedulingPolicy.Gang == nil || !metav1.IsControlledBy(w, j) {
		return nil
	}
	w.Spec.PodGroupTemplates[0].SchedulingPolicy.Gang.MinCount = want
	w.Generation++
	return p.put(keyOf(workloads, w), w)
}

// shrinkGang says how many pods of a Job's gang there will be from now on.
func (p *pass) shrinkGang(rec *jobRecord) {
	if key := p.records.gangs.groupOf(rec.key); key != "" {
		p.records.node.Resize(strings.TrimPrefix(key, podGroups+"/"), rec.AtOnce())
	}
}

// showGroup notes on the PodGroup of a pod whether its pods are scheduled.
func (p *pass) showGroup(obj *corev1.Pod, c metav1.Condition) error {
	if obj.Spec.SchedulingGroup == nil || obj.Spec.SchedulingGroup.PodGroupName == nil {
		return nil
	}
	key := store.Key(podGroups, obj.Namespace, *obj.Spec.SchedulingGroup.PodGroupName)
	g := newPodGroup()
	if ok, err := objects.Read(p.tx, key, g); err != nil || !ok {
		return err
	}
	if meta.IsStatusConditionTrue(g.Status.Conditions, c.Type) {
		return nil // it stays so
	}
	c.ObservedGeneration, c.LastTransitionTime = g.Generation, metav1.NewTime(p.now)
	if !meta.SetStatusCondition(&g.Status.Conditions, c) {
		return nil
	}
	return p.put(key, g)
}

var (
	groupScheduled = metav1.Condition{
		Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue, Reason: "Scheduled",
		Message: "All required pods have been successfully scheduled",
	}
	groupPreempted = metav1.Condition{
		Type: schedulingv1beta1.DisruptionTarget, Status: metav1.ConditionTrue, Reason: schedulingv1beta1.PodGroupReasonPreemptionByScheduler,
		Message: preempting,
	}
)

func groupWaits(why string) metav1.Condition {
	return metav1.Condition{
		Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionFalse,
		Reason: schedulingv1beta1.PodGroupReasonUnschedulable, Message: why,
	}
}

func newWorkload() *schedulingv1beta1.Workload { return &schedulingv1beta1.Workload{} }
func newPodGroup() *schedulingv1beta1.PodGroup { return &schedulingv1beta1.PodGroup{} }
