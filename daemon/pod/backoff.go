package pod

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

// Back-off of restarts in place and of launches that fail: as in clusters.
const (
	backoffBase  = 10 * time.Second
	backoffCap   = 5 * time.Minute
	backoffReset = 10 * time.Minute // a container that ran this long is restarted at once

	// imageErrorShown is how long ErrImagePull is shown before ImagePullBackOff.
	imageErrorShown = time.Second
)

// backoff returns the n-th delay: 10 s, 20 s, ... 5 min; 0 for n = 0.
func backoff(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	if n > 5 {
		return backoffCap
	}
	return min(backoffBase<<(n-1), backoffCap)
}

// restartDelay returns how long after its end a container is restarted: at once for the first time, then after 10 s,
// 20 s, ... It is a function of the status alone: the previous delay was no longer than the time between the last two
// attempts, and there were no more restarts than RestartCount.
func restartDelay(c container) time.Duration {
	end := c.ended()
	ran := end.FinishedAt.Sub(end.StartedAt.Time)
	if end.StartedAt.Unix() <= 0 {
		ran = 0 // it could not be started
	}
	if c.status.RestartCount == 0 || c.redefined() || ran >= backoffReset {
		return 0
	}
	step := int(c.status.RestartCount) - 1
	if last := c.status.LastTerminationState.Terminated; last != nil && c.status.State.Terminated != nil {
		begun := end.StartedAt.Time
		if begun.Unix() <= 0 {
			begun = end.FinishedAt.Time
		}
		gap := begun.Sub(last.FinishedAt.Time)
		for step > 0 && backoff(step) > gap {
			step--
		}
	}
	return backoff(step + 1)
}

// restartAt returns when a container that has ended is to be restarted.
func restartAt(c container) time.Time {
	if w := c.status.State.Waiting; w != nil && w.Reason == reasonCrashLoop && !c.redefined() {
		// It was decided when the container ended; what it was decided from is no longer in the status.
		if delay, ok := delayOf(w.Message); ok {
			return c.ended().FinishedAt.Add(delay)
		}
	}
	return c.ended().FinishedAt.Add(restartDelay(c))
}

// crashLoopMessage is the message of a container that waits for its restart, in the words of a cluster. The status has no
// other place for the delay, so delayOf reads it from there, also what an older jobd has stored.
func crashLoopMessage(delay time.Duration, container, pod string) string {
	return fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", delay, container, pod)
}

// delayOf returns the delay in a crashLoopMessage.
func delayOf(message string) (time.Duration, bool) {
	var text string
	if _, err := fmt.Sscanf(message, "back-off %s restarting", &text); err != nil {
		return 0, false
	}
	delay, err := time.ParseDuration(text)
	return delay, err == nil
}

// holdRestarts shows containers that wait for their restart as CrashLoopBackOff. Those that are restarted at once wait
// only if they did not come up: for the reason why.
func (f *folder) holdRestarts() {
	containers(f.pod, func(c container) bool {
		end := c.status.State.Terminated
		if end == nil || !restarts(f.pod, c, end) {
			return true
		}
		delay := restartDelay(c)
		if delay == 0 {
			f.holdFailedStart(c, end)
			return true
		}
		if !f.now.Before(end.FinishedAt.Add(delay)) {
			return true
		}
		f.changed = true
		pod := f.describe()
		c.waiting(reasonCrashLoop, crashLoopMessage(delay, c.spec.Name, pod))
		f.warning(c, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.spec.Name, pod))
		return true
	})
}

// holdFailedStart shows why a container did not come up that is about to be restarted: its process could not be started,
// or its postStart hook has failed.
func (f *folder) holdFailedStart(c container, end *corev1.ContainerStateTerminated) {
	i := f.issued.find(c.spec.Name)
	switch {
	case end.Reason == reasonStartError:
		f.changed = c.waiting(duty.RunContainer, end.Message) || f.changed
	case i != nil && i.unhealthy == int(c.status.RestartCount)+1 && i.failedCheck == duty.PostStart:
		f.changed = c.waiting(reasonPostStartHook, i.failure) || f.changed
	}
}

// holdPulls shows containers whose image could not be pulled as ImagePullBackOff.
func (f *folder) holdPulls() {
	containers(f.pod, func(c container) bool {
		w, i := c.status.State.Waiting, f.issued.find(c.spec.Name)
		if w == nil || w.Reason != duty.ErrImagePull || i == nil || i.failed == 0 || i.image != c.spec.Image || i.launched == c.next()+1 ||
			f.now.Before(i.failedAt.Add(imageErrorShown)) {
			return true
		}
		message := fmt.Sprintf("Back-off pulling image %q", f.imageOf(c, i.failedOf))
		f.changed = c.waiting(reasonImagePullBackOff, message+": "+duty.ErrImagePull+": "+w.Message) || f.changed
		f.aboutImage(c, i.failedOf, corev1.EventTypeNormal)("BackOff", message)
		f.warning(c, "Failed", "Error: "+reasonImagePullBackOff)
		return true
	})
}
