package simulation

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/internal/signals"
)

// settlePod brings one pod up to date, and reports whether there was one for which something was due.
func (s *simulation) settlePod() bool {
	for _, p := range s.live {
		for _, name := range slices.Sorted(maps.Keys(p.running)) {
			if r := p.running[name]; s.due(r.due) {
				p.of.exit(p, name, r, r.exitCode, 0)
			}
		}
		if p.dirty || s.due(p.wake) {
			s.follow(p)
			return true
		}
	}
	return false
}

// follow folds in what has happened to a pod, and does what it needs next.
func (s *simulation) follow(p *simulated) {
	p.dirty, p.wake = false, time.Time{}
	if pod.AwaitsSignal(p.Pod) {
		p.issued.JobEnds(p.of.record.Deadline())
	}
	_, displaced := core.DisplacedSince(p.Pod)
	p.issued.Pause(displaced || p.of.record.Paused())
	result := pod.Apply(p.Pod, &p.issued, p.observed, s.now)
	p.observed = nil
	actions, wake := pod.Next(p.Pod, &p.issued, s.now)
	p.issued.Record(actions, s.now)
	p.wake = wake
	for _, a := range actions {
		p.of.act(p, a)
	}
	if !s.removeIfOver(p) && result.Changed {
		s.fold(p)
	}
	if !p.dirty && pod.Done(p.Pod) && podspec.Ended(p.Pod) || s.byUID[p.UID] == nil {
		s.live = slices.DeleteFunc(s.live, func(other *simulated) bool { return other == p })
		p.live = false
	}
}

// enliven notes that something is left to be done for a pod.
func (s *simulation) enliven(p *simulated) {
	if !p.live {
		p.live = true
		s.live = append(s.live, p)
	}
}

// act carries an action out, at once.
func (s *played) act(p *simulated, a duty.Action) {
	s.moved = s.now
	switch a.Kind {
	case duty.Launch:
		s.start(p, a.Container, a.Attempt)
	case duty.Stop:
		if r, ok := p.running[a.Container]; ok && r.attempt == a.Attempt {
			s.exit(p, a.Container, r, 128+int(a.Signal), int(a.Signal))
		}
	case duty.Pause:
		for _, r := range p.running {
			if !r.due.IsZero() {
				r.due, r.left = time.Time{}, max(r.due.Sub(s.now), time.Nanosecond)
			}
		}
		p.observe(s.now, duty.Observation{What: duty.Paused, OK: true})
	case duty.Continue:
		for _, r := range p.running {
			if r.left > 0 {
				r.due, r.left = s.now.Add(r.left), 0
			}
		}
		p.observe(s.now, duty.Observation{What: duty.Continued, OK: true})
	case duty.SendSignal:
		p.observe(s.now, duty.Observation{What: duty.SignalSent, OK: true})
		s.tell("Signaled", p, "gets %s (%s)", signals.Name(a.Signal), core.SignalAnnotation)
	case duty.TearDown:
		for name, r := range p.running {
			s.exit(p, name, r, 128+int(syscall.SIGKILL), int(syscall.SIGKILL))
		}
		p.observe(s.now, duty.Observation{What: duty.TornDown})
	}
}

// fold tells the Job and the node of a pod as it now is.
func (s *simulation) fold(p *simulated) {
	p.of.record.SetPod(job.Summarize(p.Pod))
	p.of.dirty = true
	switch {
	case podspec.Ended(p.Pod) || p.DeletionTimestamp != nil && p.Spec.NodeName == "":
		s.node.Gone(p.UID)
	case p.Spec.NodeName != "":
		var started time.Time
		if p.Status.StartTime != nil {
			started = p.Status.StartTime.Time
		}
		s.node.Bound(p.request, started, p.DeletionTimestamp != nil)
		since, displaced := core.DisplacedSince(p.Pod)
		held := p.of.record.Paused()
		s.node.Displaced(p.UID, since, held)
		frozen := pod.IsPaused(p.Pod) && (displaced || held)
		s.node.Freeze(p.UID, node.Pause{
			Frozen: frozen, For: core.PausedFor(p.Pod),
			Stands: frozen || displaced || p.of.record.Stands(), Later: max(core.PausedFor(p.Pod), p.of.record.PausedFor()),
		})
	case len(p.Spec.SchedulingGates) > 0:
	case p.of.record.WindowClosed() != "" || p.of.record.Paused(): // it is folded in again when that opens, or it goes on
		s.node.Gone(p.UID)
	default:
		s.node.Wait(p.request, p.nominated)
	}
}

// touch folds a pod in that was changed from outside.
func (s *simulation) touch(p *simulated) {
	p.dirty = true
	s.enliven(p)
	s.fold(p)
}

// removeIfOver removes a deleted pod of which nothing is left.
func (s *simulation) removeIfOver(p *simulated) bool {
	if p.DeletionTimestamp == nil || !pod.Done(p.Pod) || len(p.Finalizers) > 0 {
		return false
	}
	p.of.record.DropPod(p.UID)
	s.node.Gone(p.UID)
	delete(s.byUID, p.UID)
	p.of.pods[p.number-1] = nil
	p.of.there--
	p.of.dirty = true
	return true
}

// admit binds the next pods that fit, and reports whether there were any.
func (s *simulation) admit() bool {
	s.node.At(s.now)
	step, ok := s.node.Next(nil)
	if !ok {
		return false
	}
	for _, uid := range step.Bind {
		p := s.byUID[uid]
		p.Spec.NodeName = nodeName
		scheduled := corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(s.now),
		}
		conditions.Set(&p.Status.Conditions, scheduled)
		s.touch(p)
	}
	for _, uid := range step.Continue {
		s.displace(s.byUID[uid], false)
	}
	for _, uid := range step.Nominate {
		s.byUID[uid].nominated = true
	}
	for _, uid := range step.Pause {
		s.displace(s.byUID[uid], true)
	}
	for _, uid := range step.Victims {
		s.preempt(s.byUID[uid])
	}
	return true
}

// displace pauses a pod for others, or lets it go on.
func (s *simulation) displace(p *simulated, displaced bool) {
	c := corev1.PodCondition{
		Type: core.PodDisplaced, Status: corev1.ConditionFalse, ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(s.now),
	}
	if displaced {
		c.Status, c.Reason = corev1.ConditionTrue, core.ReasonPreempted
		p.of.tell("Paused", p, "is paused for a pod of a higher priority (%s)", core.PreemptByAnnotation)
	} else {
		p.of.tell("Continued", p, "goes on: its CPU is free again")
	}
	conditions.Set(&p.Status.Conditions, c)
	s.touch(p)
}

// preempt ends a pod for others.
func (s *simulation) preempt(p *simulated) {
	if podspec.Ended(p.Pod) || p.DeletionTimestamp != nil {
		return
	}
	conditions.Set(&p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(s.now),
	})
	p.of.tell("Preempted", p, "is preempted by a pod of a higher priority")
	s.delete(p, pod.GraceForOthers(p.Pod)+int64(core.SignalLead(p.Pod, s.now)/time.Second))
}

// jobDue returns a Job to be decided on, nil if there is none.
func (s *simulation) jobDue() *played {
	for _, j := range s.jobs {
		if j.begun && (j.dirty || s.due(j.wake)) {
			return j
		}
	}
	return nil
}

// decide takes one decision about the Job and carries it out, in the order of its fields.
func (s *played) decide() error {
	s.dirty = false
	s.record.Hold(s.needsPlace())
	d := job.Decide(s.record, s.now, s.Settings)
	s.wake = d.Wake
	for _, n := range d.Create {
		if s.created >= s.MaxCreated {
			what := "the Job has"
			if s.several() {
				what = "the Jobs have"
			}
			return fmt.Errorf("%s created %d pods in %s and not ended: this is not simulated any further", what, s.created, s.now.Sub(s.Begin))
		}
		p, err := s.create(n)
		if err != nil {
			return err
		}
		s.fold(p)
	}
	for _, r := range d.Release {
		if p := s.byUID[r.UID]; p != nil {
			job.Untrack(p.Pod)
			s.tellCounted(p, r)
			s.touch(p)
		}
	}
	for _, ref := range d.Delete {
		if p := s.byUID[ref.UID]; p != nil {
			s.delete(p, ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 0))
		}
	}
	if d.PausedFor != nil {
		metav1.SetMetaDataAnnotation(&s.job.ObjectMeta, batch.PausedForAnnotation, d.PausedFor.String())
	}
	for _, status := range d.Status {
		s.tellConditions(&status)
		s.job.Status = status
		s.changed()
	}
	if s.gang != "" {
		s.node.Resize(s.gang, s.record.AtOnce())
	}
	s.dirty = s.dirty || d.More
	s.tellBackoff()
	if s.job.DeletionTimestamp != nil && s.there == 0 {
		s.set.gone(s)
	}
	return nil
}

// delete deletes a pod with a grace period in seconds.
func (s *simulation) delete(p *simulated, grace int64) {
	if p.DeletionTimestamp == nil {
		if pod.Done(p.Pod) || podspec.Ended(p.Pod) {
			grace = 0
		}
		t := metav1.NewTime(s.now.Add(podspec.Seconds(grace)).Truncate(time.Second))
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &t, &grace
		p.Generation++
		p.of.tell("Deleted", p, "is deleted")
	}
	if !s.removeIfOver(p) {
		s.touch(p)
	}
}
