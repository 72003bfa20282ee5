package causes

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/requests"
)

// jobPreempted is that pods of a Job are paused for others of a higher priority (core.PreemptByAnnotation).
func jobPreempted(v *jobView) []why.Cause {
	by := batch.PausedBy(&v.job.Status)
	if v.end != nil || by != batch.Preempted && by != batch.PodsPreempted {
		return nil
	}
	c := why.Cause{Type: "Preempted", Details: map[string]string{}}
	displaced := 0
	for _, p := range v.pods {
		if _, is := core.DisplacedSince(p); is && !podspec.Ended(p) {
			displaced++
		}
	}
	which := "Its pods are paused"
	if c.Brief = "preempted, and paused"; by == batch.PodsPreempted && displaced > 0 {
		which, c.Brief = fmt.Sprintf("%s of it are paused", pods(displaced)), fmt.Sprintf("%d of its pods preempted, and paused", displaced)
		if displaced == 1 {
			which = "A pod of it is paused"
		}
	}
	c.Message = fmt.Sprintf("%s for others of a higher priority (%s).", which, core.PreemptByAnnotation)
	v.standsStill(&c)
	return []why.Cause{c}
}

// podPreempted is that a pod is paused for others of a higher priority, and what it waits for.
func podPreempted(v *podView) []why.Cause {
	since, displaced := core.DisplacedSince(v.pod)
	if !displaced || v.ended() || v.pod.DeletionTimestamp != nil || v.job != nil && batch.State(v.job) == batch.StatePaused {
		return nil
	}
	c := why.Cause{
		Type: "Preempted", Brief: "preempted, and paused", Since: why.At(since), Details: map[string]string{},
		Message: "Pods of a higher priority have its CPU, so its containers are frozen: they keep their memory. It goes on by itself as soon as its " +
			"CPU is free. Probes and deadlines stand still.",
	}
	r, ok := v.Rooms[v.pod.UID]
	if !ok {
		return []why.Cause{c}
	}
	c.Details["place"], c.Details["waiting"], c.Details["priority"] = fmt.Sprint(r.Place), fmt.Sprint(r.Waiting), fmt.Sprint(r.Priority)
	for _, s := range r.Short {
		if s.Resource == corev1.ResourceCPU {
			c.Message += fmt.Sprintf(" It needs %s of cpu, and %s of %s is free.", requests.Human(s.Resource, s.Request), requests.Human(s.Resource, s.Free),
				requests.Human(s.Resource, s.Allocatable))
		}
	}
	c.Message += fmt.Sprintf(" %s, with priority %d.%s", place(r.Place, r.Waiting), r.Priority, fairly(r.Fair))
	if r.Kept != nil && r.Kept.Own {
		c.Message += " It has waited for longer than --starvation-after, so its CPU is given to nobody behind it."
	}
	if f := v.Forecast; f != nil && f.Starts != nil {
		c.Brief += ", goes on " + f.Starts.Brief(v.Now)
		c.Message += fmt.Sprintf(" That it goes on is %s.", f.Starts.Brief(v.Now))
	}
	c.Causes = v.holders(&r)
	if first := v.firstEnd(&r); !first.IsZero() {
		c.Until = why.At(first.Truncate(time.Second))
	}
	return []why.Cause{c}
}
