package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// Launching is what is known about the launch of a container that has not succeeded yet.
type Launching struct {
	Container string
	// Failed is how many launches have failed in a row, and FailedAt when the last one did.
	Failed   int
	FailedAt time.Time
	// Next is when it is tried again; zero while it is being tried.
	Next time.Time
}

// Launchings returns the launches that have failed and are to be repeated.
func (i *Issued) Launchings() (all []Launching) {
	containers := i.look().containers
	for n := range containers {
		c := &containers[n]
		if c.failed == 0 {
			continue
		}
		l := Launching{Container: c.name, Failed: c.failed, FailedAt: c.failedAt}
		if c.launched == 0 {
			l.Next = c.failedAt.Add(backoff(c.failed))
		}
		all = append(all, l)
	}
	return all
}

// Restarting is a container that has ended and waits to be started again in its pod.
type Restarting struct {
	Container string
	Restarts  int32
	At        time.Time
	Last      *corev1.ContainerStateTerminated
	// Cap is the longest back-off.
	Cap time.Duration
}

// Restarts returns the containers of a pod that wait for their restart, by the pod's status alone.
func Restarts(pod *corev1.Pod) (all []Restarting) {
	if podspec.Ended(pod) || pod.DeletionTimestamp != nil {
		return nil
	}
	containers(pod, func(c container) bool {
		if c.status == nil || c.running() {
			return true
		}
		if end := c.ended(); end != nil && restarts(pod, c, end) {
			all = append(all, Restarting{c.spec.Name, c.status.RestartCount, restartAt(c), end, backoffCap})
		}
		return true
	})
	return all
}
