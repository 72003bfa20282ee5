package pod

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
)

// signaling is what is known of the signal of a pod (core.SignalAnnotation) beyond its status.
type signaling struct {
	jobEnds time.Time // when the deadline of its Job ends the pod; zero for never
	asked   bool      // the worker was asked to send it
}

// signaling returns what is known of the signal, to be changed.
func (i *Issued) signaling() *signaling {
	open := i.change()
	if open.signal == nil {
		open.signal = &signaling{}
	}
	return open.signal
}

// AwaitsSignal reports whether a pod is to get a signal before it ends, and has not got it yet. Only then does it matter when its
// Job ends.
func AwaitsSignal(pod *corev1.Pod) bool {
	_, asks := pod.Annotations[core.SignalAnnotation]
	return asks && conditions.Find(pod.Status.Conditions, core.Signaled) == nil
}

// JobEnds tells when the deadline of the Job ends a pod that AwaitsSignal; zero for never.
func (i *Issued) JobEnds(at time.Time) {
	if s := i.look().signal; s == nil && at.IsZero() {
		return
	}
	i.signaling().jobEnds = at
}

// signalDue returns when the containers of a pod are to have their signal, and why in words; zero if they are not, as far as it is
// known. What starts later than that does not get it.
func signalDue(pod *corev1.Pod, issued *Issued, s *core.Signal, now time.Time) (due time.Time, reason, why string) {
	if pod.DeletionTimestamp != nil {
		if putOff(pod) == 0 {
			return time.Time{}, "", ""
		}
		end, _ := deletion(pod)
		return end.since, core.EvictionNear, fmt.Sprintf("the pod makes room, and is stopped in %s", end.begin.Sub(end.since))
	}
	if makesWay(pod) || isRejected(pod) {
		return time.Time{}, "", ""
	}
	end, of := time.Time{}, "its Job"
	if known := issued.look().signal; known != nil {
		end = known.jobEnds
	}
	if own, ok := deadline(pod); ok && (end.IsZero() || own.Before(end)) {
		end, of = own, "the pod"
	}
	if end.IsZero() || !now.Before(end) {
		return time.Time{}, "", ""
	}
	return end.Add(-s.Lead), core.DeadlineNear, fmt.Sprintf("activeDeadlineSeconds of %s ends it at %s", of, end.UTC().Format(time.RFC3339))
}

// putOff returns by how much the end of a pod that is evicted or preempted was put off for its signal (core.SignalLead): what its
// deletion allows beyond the grace period that it has then.
func putOff(pod *corev1.Pod) time.Duration {
	s, err := core.SignalOf(pod.Annotations)
	c := conditions.Find(pod.Status.Conditions, corev1.DisruptionTarget)
	if err != nil || s == nil || c == nil || c.Status != corev1.ConditionTrue || pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	allowed := podspec.Seconds(*pod.DeletionGracePeriodSeconds) - podspec.Seconds(GraceForOthers(pod))
	return max(0, min(allowed, s.Lead))
}

// Signals returns the containers of a pod to which its signal is to be sent that was due at a time.
func Signals(pod *corev1.Pod, due time.Time) (running []Attempt) {
	workload(pod, func(c container) bool {
		if c.running() && !c.status.State.Running.StartedAt.After(due) {
			running = append(running, c.newest())
		}
		return true
	})
	return running
}

// signal notes in the status that the signal is to be sent: from then on it will be, whatever happens to the daemon.
func (f *folder) signal() {
	if !AwaitsSignal(f.pod) {
		return
	}
	s, err := core.SignalOf(f.pod.Annotations)
	if err != nil {
		return // a client has changed it since
	}
	due, reason, why := signalDue(f.pod, f.issued, s, f.now)
	if due.IsZero() || f.now.Before(due) || len(Signals(f.pod, due)) == 0 {
		return
	}
	f.condition(corev1.PodCondition{
		Type: core.Signaled, Status: corev1.ConditionFalse, Reason: reason, Message: s.Name() + " is being sent: " + why,
	})
}

// signalSent folds in what came of sending the signal.
func (f *folder) signalSent(o duty.Observation) {
	c := conditions.Find(f.pod.Status.Conditions, core.Signaled)
	s, err := core.SignalOf(f.pod.Annotations)
	if c == nil || c.Status != corev1.ConditionFalse || err != nil || s == nil {
		return
	}
	_, why, _ := strings.Cut(c.Message, ": ")
	next := corev1.PodCondition{Type: core.Signaled, Status: corev1.ConditionTrue, Reason: c.Reason, Message: s.Name() + " was sent: " + why}
	e := Event{Type: corev1.EventTypeNormal, Reason: "Signaled", Message: "Sent " + s.Name() + ": " + why}
	if !o.OK {
		next.Status, next.Message = corev1.ConditionUnknown, s.Name()+" could not be sent to all containers: "+o.Message
		e = Event{Type: corev1.EventTypeWarning, Reason: "FailedSignal", Message: next.Message}
	}
	f.condition(next)
	f.events = append(f.events, e)
}

// signal asks the worker to send the signal, or to be called when it is due.
func (p *planner) signal() {
	if _, asks := p.pod.Annotations[core.SignalAnnotation]; !asks {
		return
	}
	s, err := core.SignalOf(p.pod.Annotations)
	if err != nil {
		return
	}
	due, _, _ := signalDue(p.pod, p.issued, s, p.now)
	switch c := conditions.Find(p.pod.Status.Conditions, core.Signaled); {
	case c == nil && due.After(p.now):
		p.at(due)
	case c == nil || c.Status != corev1.ConditionFalse:
	case p.issued.look().signal != nil && p.issued.look().signal.asked:
	default:
		if due.IsZero() {
			due = c.LastTransitionTime.Time
		}
		p.actions = append(p.actions, duty.Action{Kind: duty.SendSignal, Signal: s.Number, Due: due})
	}
}

// waits reports whether what runs of a pod that is to end is left alone until later, since it has had its signal.
func (p *planner) waits(s stop) bool {
	if !p.now.Before(s.begin) {
		return false
	}
	runs := false
	workload(p.pod, func(c container) bool {
		runs = !c.sidecar() && (c.running() || p.issued.underWay(c))
		return !runs
	})
	if runs {
		p.at(s.begin)
	}
	return runs
}
