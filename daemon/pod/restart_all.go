package pod

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	reasonRestartingAll  = "RestartingAllContainers"
	reasonRestartStarted = "RestartAllContainersStarted"
	messageRestartRule   = "container exited with restart policy rule"
)

// restartsAll reports whether a container has ended in a way for which its rules restart all containers of the pod, and
// when that is to be, by the back-off of that container. Until then its state stays Terminated, and nothing else runs.
func restartsAll(pod *corev1.Pod) (at time.Time, ok bool) {
	containers(pod, func(c container) bool {
		if len(c.spec.RestartPolicyRules) == 0 || c.status == nil || c.status.State.Terminated == nil {
			return true
		}
		rule := ruleFor(c.spec, c.status.State.Terminated)
		if rule != nil && rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
			ok = true
			if due := restartAt(c); due.After(at) {
				at = due
			}
		}
		return true
	})
	return at, ok
}

// restartsAll is restartsAll of a pod that has not come to its end: after that a sidecar ends because it is told to.
func (i *Issued) restartsAll(pod *corev1.Pod) (at time.Time, ok bool) {
	if i.look().end != nil {
		return time.Time{}, false
	}
	return restartsAll(pod)
}

// restartAll resets all containers of a pod whose containers are to be restarted together, once none of them runs and
// the back-off is over. It reports whether the reset is still to come.
func (f *folder) restartAll() bool {
	at, ok := f.issued.restartsAll(f.pod)
	switch {
	case !ok:
		return false
	case !quiet(f.pod, f.issued):
		f.killing()
		return true
	case f.now.Before(at):
		return true
	}
	workload(f.pod, func(c container) bool {
		if c.begun() {
			c.renew(reasonRestartingAll)
		}
		return true
	})
	f.changed = true
	return false
}

// renew resets a container that has ended to one that waits for the first start of its next attempt. Without a
// container ID the last state is known to be that of an earlier attempt.
func (c container) renew(reason string) {
	c.waiting(reason, "")
	c.status.RestartCount++
	c.status.ContainerID = ""
	c.status.Ready, c.status.Started = false, new(bool)
}

// startsAnew reports whether a pod whose containers were reset had come to its main containers before: it stays
// Running.
func startsAnew(pod *corev1.Pod) bool {
	anew := false
	for i := range pod.Spec.Containers {
		switch c := mainContainer(pod, i); {
		case c.begun():
		case c.status.LastTerminationState.Terminated == nil:
			return false
		default:
			anew = true
		}
	}
	return anew
}

// restartingCondition returns the condition AllContainersRestarting. False: the pod has no rule that restarts them all.
func restartingCondition(pod *corev1.Pod, issued *Issued) (corev1.PodCondition, bool) {
	c := corev1.PodCondition{Type: corev1.AllContainersRestarting, Status: corev1.ConditionFalse}
	possible := false
	containers(pod, func(c container) bool {
		possible = slices.ContainsFunc(c.spec.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
		return !possible
	})
	if !possible {
		return c, false
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		c.Reason = reasonPodCompleted
	case corev1.PodFailed:
		c.Reason = reasonPodFailed
	default:
		if _, restarting := issued.restartsAll(pod); restarting {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonRestartStarted, messageRestartRule
		}
	}
	return c, true
}
