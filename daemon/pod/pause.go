package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/duty"
)

// pauseAgain is how long after an attempt to freeze or to thaw a pod that has failed it is tried again.
const pauseAgain = 10 * time.Second

// pausing is what the worker was asked for last: Pause, Continue, or nothing. It is not stored: after a restart of the daemon it is
// asked for again, and what is done already is found.
type pausing struct {
	asked  duty.Kind
	failed time.Time // when that failed; zero if it did not
}

// Pause tells whether the pod is to be paused: with its Job, or for others (core.PodDisplaced). It is to be called before Apply.
func (i *Issued) Pause(pause bool) { i.pause = pause }

// CannotPause reports whether the containers of a pod that is to be paused could not be frozen at the last attempt.
func CannotPause(pod *corev1.Pod) bool {
	c := conditions.Find(pod.Status.Conditions, core.PodPaused)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == reasonFailedPause
}

// IsPaused reports whether the containers of a pod are frozen.
func IsPaused(pod *corev1.Pod) bool {
	_, paused := core.PausedSince(pod)
	return paused
}

// Reasons of the condition PodPaused while nobody knows whether containers are frozen.
const (
	reasonPausing     = "Pausing"     // they are about to be
	reasonFailedPause = "FailedPause" // not all of them could be
)

// MayBePaused reports whether containers of a pod are frozen, or may be. That they are to be is stored before it is done, so that they
// are let go on, if they should, by whoever comes after a crash.
func MayBePaused(pod *corev1.Pod) bool {
	c := conditions.Find(pod.Status.Conditions, core.PodPaused)
	return c != nil && (c.Status == corev1.ConditionTrue || c.Reason == reasonPausing || c.Reason == reasonFailedPause)
}

// beginPause notes that the containers are about to be frozen.
func (f *folder) beginPause() {
	if f.issued.pause && !MayBePaused(f.pod) {
		f.condition(pausingCondition(f.pod))
	}
}

func pausingCondition(p *corev1.Pod) corev1.PodCondition {
	_, since := whyPaused(p)
	return corev1.PodCondition{
		Type: core.PodPaused, Status: corev1.ConditionFalse, Reason: reasonPausing, Message: "the containers are about to be frozen, " + since,
	}
}

// whyPaused returns why a pod is paused, as the reason of PodPaused and in words.
func whyPaused(p *corev1.Pod) (reason, since string) {
	if _, displaced := core.DisplacedSince(p); displaced {
		return core.ReasonPreempted, "since a pod of a higher priority has their CPU"
	}
	return batch.PausedByUser, "since the Job is paused"
}

// ToBePaused makes a pod that is to be paused look, to Recover, as it will once it is decided on: nothing will be launched for it.
func ToBePaused(pod *corev1.Pod) {
	if !MayBePaused(pod) {
		conditions.Set(&pod.Status.Conditions, pausingCondition(pod))
	}
}

// pausing returns what was asked, to be changed.
func (i *Issued) pausing() *pausing {
	open := i.change()
	if open.pausing == nil {
		open.pausing = &pausing{}
	}
	return open.pausing
}

// askedToPause returns what was asked last.
func (i *Issued) askedToPause() pausing {
	if p := i.look().pausing; p != nil {
		return *p
	}
	return pausing{}
}

// pause asks the worker to freeze the containers of a pod that does not end, or to let them go on. It reports whether nothing else
// is to happen to the pod.
func (p *planner) pause() (paused bool) {
	asked, wanted := p.issued.askedToPause(), duty.Continue
	switch {
	case p.issued.pause:
		wanted = duty.Pause
	case asked.asked == "" && !MayBePaused(p.pod):
		return false
	}
	again := asked.failed.Add(pauseAgain)
	switch {
	case asked.asked == wanted && asked.failed.IsZero():
	case asked.asked == wanted && p.now.Before(again):
		p.at(again)
	default:
		p.actions = append(p.actions, duty.Action{Kind: wanted})
	}
	return true
}

// paused folds in what came of a Pause or Continue.
func (f *folder) paused(o duty.Observation) {
	wanted := duty.Pause
	if o.What == duty.Continued {
		wanted = duty.Continue
	}
	if f.issued.askedToPause().asked != wanted {
		return // something else was asked for since
	}
	asked := f.issued.pausing()
	c := corev1.PodCondition{Type: core.PodPaused}
	switch {
	case !o.OK:
		asked.failed = o.At
		f.warnOnce(duty.Observation{Reason: "Failed" + string(wanted), Message: o.Message})
		if wanted == duty.Pause && !IsPaused(f.pod) {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reasonFailedPause, o.Message
			f.condition(c)
		}
	case wanted == duty.Pause:
		asked.failed = time.Time{}
		if !IsPaused(f.pod) {
			reason, since := whyPaused(f.pod)
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reason, "the containers are frozen, "+since
			f.condition(c)
			f.events = append(f.events, Event{corev1.EventTypeNormal, "Paused", "Froze the containers, " + since, ""})
		}
	default:
		f.goOn("Continued")
		f.issued.change().pausing = nil
		f.events = append(f.events, Event{corev1.EventTypeNormal, "Continued", "Let the containers go on", ""})
	}
}

// goOn notes that the containers of a pod are no longer frozen, and for how long they were.
func (f *folder) goOn(reason string) {
	if conditions.Find(f.pod.Status.Conditions, core.PodPaused) == nil {
		return
	}
	if since, paused := core.PausedSince(f.pod); paused {
		all := core.PausedFor(f.pod) + max(0, seconds(f.now).Sub(since))
		metav1.SetMetaDataAnnotation(&f.pod.ObjectMeta, core.PausedForAnnotation, all.String())
	}
	f.condition(corev1.PodCondition{Type: core.PodPaused, Status: corev1.ConditionFalse, Reason: reason})
}

// startedWhilePaused lets a container be frozen whose launch was under way when its pod was.
func (i *Issued) startedWhilePaused() {
	if i.askedToPause().asked == duty.Pause {
		i.pausing().asked = ""
	}
}
