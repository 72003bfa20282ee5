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

// restartsAll tells whether a container has ended in a way for which its rules start the whole pod anew, and when that
// is to be: the back-off is that of the container. Until then its end stays as it is shown, and nothing else runs.
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

// restartAll brings a pod that is to start anew to where none of its containers has begun, once nothing of it runs and
// the time has come. It tells whether that is still awaited.
func (f *folder) restartAll() bool {
	at, ok := restartsAll(f.pod)
	switch {
	case !ok:
		return false
	case !quiet(f.pod, f.issued):
		f.killing()
		return true
	case f.now.Before(at):
		return true
	}
	containers(f.pod, func(c container) bool {
		if c.begun() {
			c.renew()
		}
		return true
	})
	f.changed = true
	return false
}

// renew makes a container that has ended one that waits for its first start, as the attempt after that. That it has no
// id tells that what is known of its end is of an attempt before.
func (c container) renew() {
	c.waiting(reasonRestartingAll, "")
	c.status.RestartCount++
	c.status.ContainerID = ""
	c.status.Ready, c.status.Started = false, new(bool)
}

// startsAnew tells of a pod that has begun to start anew and had come to its main containers before: it goes on running.
func startsAnew(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.ContainerID == "" && s.LastTerminationState.Terminated != nil
	})
}

// restartingCondition tells, of a pod that has a rule for it, whether all its containers are being ended to start anew.
func restartingCondition(pod *corev1.Pod) (corev1.PodCondition, bool) {
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
		if _, restarting := restartsAll(pod); restarting {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonRestartStarted, messageRestartRule
		}
	}
	return c, true
}
