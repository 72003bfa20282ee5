package causes

import (
	"fmt"
	"time"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
)

// goOn is the command that continues the Job.
func (v *jobView) goOn() string {
	return "jobctl continue jobs/" + v.job.Name + why.InNamespace(v.job.Namespace)
}

// jobPaused is batch.PausedAnnotation.
func jobPaused(v *jobView) []why.Cause {
	if !batch.Paused(v.job.Annotations) || batch.State(v.job) != batch.StatePaused || v.Source != why.FromRecords {
		return nil
	}
	c := why.Cause{
		Type: "Paused", Brief: "paused", Details: map[string]string{},
		Message: fmt.Sprintf("It is paused (%s), so the containers of its pods are frozen, and it gets no new pods.", batch.PausedAnnotation),
		Help:    []string{v.goOn()},
	}
	switch {
	case batch.Awaits(v.job):
		c.Message = fmt.Sprintf("It is paused (%s), so it does not begin when what it waits for is over, but once somebody continues it.",
			batch.PausedAnnotation)
	case v.job.Status.StartTime == nil:
		c.Message = fmt.Sprintf("It was paused (%s) before it began, so it gets no pods, and has no place in a concurrency group.", batch.PausedAnnotation)
	}
	v.standsStill(&c)
	frozen, all := 0, 0
	for _, p := range v.pods {
		if p.Status.Phase == "Running" {
			all++
			if _, is := core.PausedSince(p); is {
				frozen++
			}
		}
	}
	if frozen < all {
		c.Details["notFrozen"] = fmt.Sprint(all - frozen)
		c.Message += fmt.Sprintf(" So far %d of %s are frozen; the events of the others say why, if it lasts.", frozen, pods(all))
	}
	return []why.Cause{c}
}

// standsStill says since when a Job is paused, and how much of its deadline is left.
func (v *jobView) standsStill(c *why.Cause) {
	since, paused := batch.PausedSince(&v.job.Status)
	if !paused {
		return
	}
	c.Since = why.At(since)
	if v.job.Spec.ActiveDeadlineSeconds != nil && v.job.Status.StartTime != nil {
		left := podspec.Seconds(*v.job.Spec.ActiveDeadlineSeconds) + batch.PausedFor(v.job.Annotations) - since.Sub(v.job.Status.StartTime.Time)
		c.Details["left"] = left.String()
		c.Message += fmt.Sprintf(" Its activeDeadlineSeconds stand still: %s of %s are left.",
			left.Round(time.Second), seconds(v.job.Spec.ActiveDeadlineSeconds))
	}
}

// podPaused is the pause of the Job of a pod.
func podPaused(v *podView) []why.Cause {
	if v.job == nil || v.ended() || v.pod.DeletionTimestamp != nil || batch.State(v.job) != batch.StatePaused || v.Source != why.FromRecords {
		return nil
	}
	c := why.Cause{Type: "Paused", Brief: "paused", Message: "Its Job is paused, so nothing is started for it."}
	if batch.Paused(v.job.Annotations) { // not by its window, of which the Job tells
		c.Help = []string{"jobctl continue jobs/" + v.job.Name + why.InNamespace(v.job.Namespace)}
	}
	if since, is := core.PausedSince(v.pod); is {
		c.Since = why.At(since)
		c.Message = "Its Job is paused, so its containers are frozen: they keep their memory, and get no CPU. Probes and deadlines stand still."
	} else if failed := v.condition(core.PodPaused); failed != nil && failed.Reason == "FailedPause" {
		c.Message = "Its Job is paused, but not all of its containers can be frozen, which is tried again: " + why.Sentence(failed.Message)
	}
	return []why.Cause{c}
}
