package pod

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

const (
	// reasonTerminated is that of a pod that ends because its machine goes down, messageTerminated what a kubelet says of it.
	reasonTerminated  = "Terminated"
	messageTerminated = "Pod was terminated in response to imminent node shutdown."
	// reasonNodeShutdown is that of a container that waits for the machine to be up again, and has not been launched since it
	// ended: it tells after a power cut which launches are in doubt.
	reasonNodeShutdown = "NodeShutdown"
)

// hostStops ends a pod, within the time that is left of its machine. As a kubelet's graceful shutdown has it, the pod has then
// failed, whatever its containers end with. A pod that restarts its containers goes on when the machine is up again, as it does
// after a machine that went down without a word: nobody makes another one in place of a pod without a Job.
func (f *folder) hostStops(within time.Duration) {
	f.issued.hostStops(within)
	next := phase(f.pod, false)
	ends := next == corev1.PodSucceeded || next == corev1.PodFailed // but for its sidecars
	if !ends && !makesWay(f.pod) && !isRejected(f.pod) && f.pod.DeletionTimestamp == nil {
		f.disrupt(reasonTerminated, messageTerminated, messageTerminated)
	}
}

// hostStays lets a pod go on that was ended because its machine went down: it is up again, or stays up after all. What was
// asked to end comes to its end first.
func (f *folder) hostStays() {
	if end := f.issued.look().end; end != nil {
		end.within = 0
	}
	if resumes(f.pod) {
		f.issued.change().hostStays = true
	}
}

// hostStops notes how long the pod has to its end.
func (i *Issued) hostStops(within time.Duration) {
	open := i.change()
	if open.end == nil {
		open.end = &issuedEnd{}
	}
	open.end.within, open.hostStays = within, false
}

// bounded shortens the grace period of a pod that is to end to what is left of its machine.
func (i *Issued) bounded(s stop) stop {
	end := i.look().end
	if end == nil || end.within == 0 || s.grace <= end.within {
		return s
	}
	s.kill = s.kill.Add(end.within - s.grace)
	s.grace = end.within
	return s
}

// resumes reports whether a pod that ends because its machine goes down is to go on when it is up again.
func resumes(pod *corev1.Pod) bool {
	return terminated(pod) && pod.Spec.RestartPolicy != corev1.RestartPolicyNever && pod.DeletionTimestamp == nil
}

// terminated reports whether a pod ends because its machine goes down.
func terminated(pod *corev1.Pod) bool { return pod.Status.Reason == reasonTerminated }

// stopped reports whether a container that has just ended did so because the machine goes down. It then runs again afterwards,
// even if it exited with 0: a program may have saved what it needs to go on. A sidecar does so anyway.
func (f *folder) stopped(c container) bool { return resumes(f.pod) && !c.ephemeral && !c.sidecar() }

// await leaves a pod as it is, nothing of which runs, until its machine is up again, and lets it go on then. It returns the phase.
func (f *folder) await() corev1.PodPhase {
	next := resumed(f.pod)
	if next == corev1.PodSucceeded || next == corev1.PodFailed { // it had come to its end
		f.settle()
		return next
	}
	reason := firstReason(f.pod)
	if !f.issued.look().hostStays {
		reason = reasonNodeShutdown
	}
	workload(f.pod, func(c container) bool {
		if c.status.State.Waiting != nil {
			f.changed = c.waiting(reason, "") || f.changed
		}
		return true
	})
	if reason == reasonNodeShutdown {
		return next
	}
	s := &f.pod.Status
	s.Reason, s.Message = "", ""
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	open := f.issued.change()
	open.hostStays, open.end = false, nil
	f.changed = true
	return next
}

// awaitsHost reports whether a container waits for the machine to be up again, so that nothing of it is under way.
func (c container) awaitsHost() bool {
	w := c.status.State.Waiting
	return w != nil && w.Reason == reasonNodeShutdown
}

// HasStopped reports whether nothing runs of a pod that was to end because its machine goes down, as far as it is on record.
func HasStopped(pod *corev1.Pod) bool {
	running := false
	containers(pod, func(c container) bool {
		running = c.status != nil && c.running()
		return !running
	})
	return podspec.Ended(pod) || terminated(pod) && !running
}
