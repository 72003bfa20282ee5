package pod

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/allotment"
	"github.com/jobd/jobd/daemon/duty"
)

// resizing is what was asked for to resize a pod (KEP-1287).
type resizing struct {
	underWay bool
	// partly, entirely: this was done for the resources that the pod has now.
	partly, entirely bool
	failed           int
	failedAt         time.Time
}

// resizing returns what was asked for, to be changed.
func (i *Issued) resizing() *resizing {
	open := i.change()
	if open.resize == nil {
		open.resize = &resizing{}
	}
	return open.resize
}

// restartResize forgets how far a resize has come, but for what is under way.
func (i *Issued) restartResize() {
	open := i.change()
	open.resize = &resizing{underWay: open.resize != nil && open.resize.underWay}
}

// Verdict is what the node says to the resources that a pod is to have. Without a Reason it has room for them.
type Verdict struct {
	// Reason is corev1.PodReasonDeferred or corev1.PodReasonInfeasible.
	Reason, Message string
}

// WantsResize reports whether the node has to say whether it has room for the resources of the spec of a pod that it runs.
func WantsResize(pod *corev1.Pod) bool {
	if podspec.Ended(pod) || !begun(pod) {
		return false
	}
	if conditions.Find(pod.Status.Conditions, corev1.PodResizePending) != nil {
		return true
	}
	if conditions.Find(pod.Status.Conditions, corev1.PodResizeInProgress) != nil {
		return !allotment.Admitted(pod) // also where it goes back to what the status says
	}
	return allotment.Differs(pod)
}

// Admit folds in what the node says to the resources of the spec of a pod. It is to be called while WantsResize.
func Admit(pod *corev1.Pod, issued *Issued, v Verdict, now time.Time) Result {
	f := &folder{pod: pod, issued: issued, now: now}
	if v.Reason != "" {
		f.postpone(v)
		return Result{f.changed, f.events}
	}
	f.drop(corev1.PodResizePending)
	if !f.drop(corev1.PodResizeInProgress) && !allotment.Differs(pod) {
		return Result{f.changed, f.events} // it was taken back
	}
	f.condition(corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue})
	issued.restartResize()
	f.resizeEvent(corev1.EventTypeNormal, "ResizeStarted", "Pod resize started", "")
	workload(pod, func(c container) bool {
		c.status.AllocatedResources = c.spec.Resources.Requests.DeepCopy()
		if !c.running() {
			c.status.Resources = c.spec.Resources.DeepCopy()
		}
		return true
	})
	if pod.Spec.Resources != nil {
		pod.Status.AllocatedResources = pod.Spec.Resources.Requests.DeepCopy()
	}
	return Result{f.changed, f.events}
}

// postpone records that the node has not admitted a resize. What was under way of the one before is taken back.
func (f *folder) postpone(v Verdict) {
	was := conditions.Find(f.pod.Status.Conditions, corev1.PodResizePending)
	if was != nil && was.Reason == v.Reason && was.Message == v.Message && was.ObservedGeneration == f.pod.Generation {
		return
	}
	event, news := "ResizeDeferred", was == nil || was.Reason != v.Reason || was.ObservedGeneration != f.pod.Generation
	if v.Reason == corev1.PodReasonInfeasible {
		event = "ResizeInfeasible"
	}
	if f.drop(corev1.PodResizeInProgress) {
		f.issued.restartResize()
		workload(f.pod, func(c container) bool {
			if c.status.Resources != nil {
				c.status.AllocatedResources = c.status.Resources.Requests.DeepCopy()
			}
			return true
		})
		if f.pod.Status.Resources != nil {
			f.pod.Status.AllocatedResources = f.pod.Status.Resources.Requests.DeepCopy()
		}
	}
	f.condition(corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: v.Reason, Message: v.Message,
	})
	if news {
		f.resizeEvent(corev1.EventTypeWarning, event, "Pod resize "+v.Reason, v.Message)
	}
}

// drop removes a condition, and reports whether there was one.
func (f *folder) drop(t corev1.PodConditionType) bool {
	n := len(f.pod.Status.Conditions)
	f.pod.Status.Conditions = slices.DeleteFunc(slices.Clone(f.pod.Status.Conditions),
		func(c corev1.PodCondition) bool { return c.Type == t })
	dropped := len(f.pod.Status.Conditions) < n
	f.changed = f.changed || dropped
	return dropped
}

// RestartsToResize reports whether a container runs that has to be restarted before it has the resources of its spec
// (Container.ResizePolicy). The pod is one that allotment.Of has returned.
func RestartsToResize(pod *corev1.Pod, name string) bool {
	c := find(pod, name)
	return c.spec != nil && c.status != nil && c.restartsToResize()
}

// restartsToResize holds only for a container whose resources are admitted.
func (c container) restartsToResize() bool {
	if c.ephemeral || !c.running() || c.status.Resources == nil || c.init && !c.sidecar() {
		return false
	}
	return slices.ContainsFunc(c.spec.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.RestartPolicy == corev1.RestartContainer && !sameAmount(&c.spec.Resources, c.status.Resources, p.ResourceName)
	})
}

func sameAmount(a, b *corev1.ResourceRequirements, name corev1.ResourceName) bool {
	of := func(x, y corev1.ResourceList) bool {
		p, q := x[name], y[name]
		return p.Cmp(q) == 0
	}
	return of(a.Limits, b.Limits) && of(a.Requests, b.Requests)
}

// resize asks for the resources that a pod is to have. That is repeated once after a restart of the daemon, since nobody
// knows how far it had come.
func (p *planner) resize() {
	if !allotment.IsResized(p.pod) {
		return
	}
	r := p.issued.resizing()
	if r.underWay || r.entirely {
		return
	}
	if r.failed > 0 {
		if retry := r.failedAt.Add(backoff(r.failed)); p.now.Before(retry) {
			p.at(retry)
			return
		}
	}
	restarting := false
	workload(p.pod, func(c container) bool {
		restarting = restarting || allotment.Admitted(p.pod) && c.restartsToResize()
		return true
	})
	if restarting && r.partly {
		return
	}
	p.actions = append(p.actions, duty.Action{Kind: duty.Resize})
}

// resized folds in what has become of a resize.
func (f *folder) resized(o duty.Observation) {
	r := f.issued.resizing()
	r.underWay = false
	if !o.OK {
		r.failed++
		r.failedAt = o.At
		f.resizeFailed(o.Message)
		return
	}
	r.failed = 0
	now := allotment.Of(f.pod)
	current := equality.Semantic.DeepEqual(o.Resized.Whole, now.Spec.Resources) // else the pod has changed again
	for i := range o.Resized.Containers {
		is := &o.Resized.Containers[i]
		c := find(f.pod, is.Name)
		if c.spec == nil || c.ephemeral || !c.running() || int(c.status.RestartCount) != is.Attempt {
			continue
		}
		current = current && equality.Semantic.DeepEqual(is.Resources, find(now, is.Name).spec.Resources)
		if !equality.Semantic.DeepEqual(&is.Resources, c.status.Resources) {
			c.status.Resources = is.Resources.DeepCopy()
			f.changed = true
		}
	}
	if !o.Resized.Partial && !equality.Semantic.DeepEqual(o.Resized.Whole, f.pod.Status.Resources) {
		f.pod.Status.Resources = o.Resized.Whole.DeepCopy()
		f.changed = true
	}
	r.partly, r.entirely = current, current && !o.Resized.Partial
}

// resizeFailed shows why a resize could not be carried out. It is tried again.
func (f *folder) resizeFailed(message string) {
	c := conditions.Find(f.pod.Status.Conditions, corev1.PodResizeInProgress)
	if c == nil || c.Reason == corev1.PodReasonError && c.Message == message {
		return
	}
	c.Reason, c.Message = corev1.PodReasonError, message
	f.changed = true
	f.resizeEvent(corev1.EventTypeWarning, "ResizeError", "Pod resize error", message)
}

// finishResize ends a resize that was carried out. A pod that has ended shows none.
func (f *folder) finishResize() {
	if podspec.Ended(f.pod) {
		f.drop(corev1.PodResizePending)
		f.drop(corev1.PodResizeInProgress)
		return
	}
	if r := f.issued.look().resize; r == nil || !r.entirely || !allotment.Admitted(f.pod) || allotment.Differs(f.pod) {
		return
	}
	f.resizeEvent(corev1.EventTypeNormal, "ResizeCompleted", "Pod resize completed", "")
	f.drop(corev1.PodResizeInProgress)
	f.issued.change().resize = nil
}

// resizeEvent records an event with the resources that the pod is to have.
func (f *folder) resizeEvent(kind, reason, message, problem string) {
	if summary := allotment.Summary(f.pod, problem); summary != "" {
		message += ": " + summary
	}
	f.events = append(f.events, Event{Type: kind, Reason: reason, Message: message})
}
