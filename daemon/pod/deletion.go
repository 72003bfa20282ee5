package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// stop is how a pod is to end: since when, and how long its containers have.
type stop struct {
	since time.Time
	// begin is until when what runs is left alone after its signal (putOff); zero if it is not.
	begin time.Time
	kill  time.Time // the latest time of SIGKILL, if it is not known when SIGTERM was sent
	grace time.Duration
}

// stopping reports whether the pod is to end by now: it is being deleted, evicted, preempted or
// rejected, or its deadline has passed.
func stopping(pod *corev1.Pod, now time.Time) (stop, bool) {
	if isRejected(pod) {
		return stop{}, true
	}
	first, stops := deletion(pod)
	for _, other := range []func() (stop, bool){
		func() (stop, bool) { return deadlineStop(pod, now) },
		func() (stop, bool) { return disrupted(pod) },
	} {
		if s, ok := other(); ok && (!stops || s.kill.Before(first.kill)) {
			first, stops = s, true
		}
	}
	return first, stops
}

func deletion(pod *corev1.Pod) (stop, bool) {
	if pod.DeletionTimestamp == nil {
		return stop{}, false
	}
	var grace time.Duration
	if g := pod.DeletionGracePeriodSeconds; g != nil {
		grace = podspec.Seconds(*g)
	}
	at := pod.DeletionTimestamp.Time
	s := stop{since: at.Add(-grace), kill: at, grace: grace}
	if wait := putOff(pod); wait > 0 {
		s.begin, s.grace = s.since.Add(wait), grace-wait
	}
	return s, true
}

// killing records events for the containers that are to be stopped, whose turn for a signal may come later.
func (f *folder) killing() {
	containers(f.pod, func(c container) bool {
		if !c.running() {
			return true
		}
		attempt := int(c.status.RestartCount)
		if i := f.issued.of(c.spec.Name); i.stopping.IsZero() && i.announced != attempt+1 {
			i.announced = attempt + 1
			f.normal(c, "Killing", "Stopping container "+c.spec.Name)
		}
		return true
	})
}

// settle sets the final state of every container: one that waits for a restart keeps its last state, and one that was
// never started is shown as not located. It is called only once nothing runs and no launch is under way.
func (f *folder) settle() {
	done := initialized(f.pod)
	containers(f.pod, func(c container) bool {
		s := c.status
		switch {
		case s.State.Terminated != nil:
		case s.LastTerminationState.Terminated != nil:
			s.State, s.LastTerminationState = s.LastTerminationState, corev1.ContainerState{}
			if s.ContainerID == "" {
				s.ContainerID, s.RestartCount = s.State.Terminated.ContainerID, s.RestartCount-1
			}
			f.changed = true
		case c.ephemeral: // it stays one that waits, as in a cluster
		case done || c.init && f.issued.find(c.spec.Name) != nil && f.issued.find(c.spec.Name).launched > 0:
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: exitStatusUnknown, Reason: reasonStatusUnknown, Message: messageNotLocated,
			}}
			f.changed = true
		}
		return true
	})
}

// quiet reports whether no container runs and no launch is under way.
func quiet(pod *corev1.Pod, issued *Issued) bool {
	quiet := true
	containers(pod, func(c container) bool {
		quiet = !c.running() && !issued.underWay(c)
		return quiet
	})
	return quiet
}

// underWay reports whether the worker was given the next launch of the container, and has not reported yet what came of
// it.
func (i *Issued) underWay(c container) bool {
	e := i.find(c.spec.Name)
	return e != nil && e.launched == c.next()+1
}
