package pod

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/podspec"
)

// container is one container of a pod with its status, which is changed in place.
//
// RestartCount is the newest attempt known to have been started. That attempt of a waiting container has ended if there
// is a last state. Without one, or without a container ID, the attempt was never started.
type container struct {
	spec   *corev1.Container
	status *corev1.ContainerStatus
	init   bool
	// ephemeral: it was added to the pod, and nothing depends on it.
	ephemeral bool
}

func initContainer(pod *corev1.Pod, i int) container {
	spec := &pod.Spec.InitContainers[i]
	return container{spec: spec, status: statusOf(pod.Status.InitContainerStatuses, spec.Name, i), init: true}
}

func mainContainer(pod *corev1.Pod, i int) container {
	spec := &pod.Spec.Containers[i]
	return container{spec: spec, status: statusOf(pod.Status.ContainerStatuses, spec.Name, i)}
}

// containers calls fn for each container, init containers first and ephemeral ones last, until it returns false.
func containers(pod *corev1.Pod, fn func(container) bool) {
	more := true
	workload(pod, func(c container) bool {
		more = fn(c)
		return more
	})
	if more {
		ephemeralContainers(pod, fn)
	}
}

// workload calls fn for each container that the pod was created with, init containers first, until it returns false.
func workload(pod *corev1.Pod, fn func(container) bool) {
	for i := range pod.Spec.InitContainers {
		if !fn(initContainer(pod, i)) {
			return
		}
	}
	for i := range pod.Spec.Containers {
		if !fn(mainContainer(pod, i)) {
			return
		}
	}
}

// find returns the container of that name. Its spec is nil if there is none.
func find(pod *corev1.Pod, name string) (found container) {
	containers(pod, func(c container) bool {
		if c.spec.Name == name {
			found = c
		}
		return found.spec == nil
	})
	return found
}

// statusOf returns the status of that name, nil if there is none. Those of init containers are in the order of the spec, so that it
// is at the index guess; those of the others are in the order of their names.
func statusOf(statuses []corev1.ContainerStatus, name string, guess int) *corev1.ContainerStatus {
	if guess < len(statuses) && statuses[guess].Name == name {
		return &statuses[guess]
	}
	i, ok := slices.BinarySearchFunc(statuses, name, func(s corev1.ContainerStatus, name string) int { return strings.Compare(s.Name, name) })
	if ok {
		return &statuses[i]
	}
	for i := range statuses { // as a client has written them
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

func (c container) fieldPath() string {
	if c.spec == nil {
		return ""
	}
	switch {
	case c.init:
		return "spec.initContainers{" + c.spec.Name + "}"
	case c.ephemeral:
		return "spec.ephemeralContainers{" + c.spec.Name + "}"
	}
	return "spec.containers{" + c.spec.Name + "}"
}

func (c container) running() bool { return c.status.State.Running != nil }

// ended returns how the newest attempt ended, nil while it runs and before the first one.
func (c container) ended() *corev1.ContainerStateTerminated {
	if c.running() {
		return nil
	}
	if t := c.status.State.Terminated; t != nil {
		return t
	}
	if c.status.ContainerID == "" {
		return nil // what ended is an attempt before
	}
	return c.status.LastTerminationState.Terminated
}

// succeeded reports whether the newest attempt has ended and has not failed.
func (c container) succeeded(pod *corev1.Pod) bool {
	t := c.ended()
	return t != nil && !podspec.HasFailed(&pod.Spec, c.spec.Name, t)
}

// next returns the attempt that would be launched next.
func (c container) next() int {
	if c.ended() != nil || c.running() {
		return int(c.status.RestartCount) + 1
	}
	return int(c.status.RestartCount)
}

// knows reports whether the start, and the end, of an attempt are in the status.
func (c container) knows(attempt int) (started, ended bool) {
	known := int(c.status.RestartCount)
	switch {
	case attempt > known:
		return false, false
	case attempt < known:
		return true, true
	}
	e := c.ended() != nil
	return e || c.running(), e
}

// waiting sets a waiting state. A terminated state becomes the last state.
func (c container) waiting(reason, message string) (changed bool) {
	s := c.status
	if w := s.State.Waiting; w != nil && w.Reason == reason && w.Message == message {
		return false
	}
	c.keepLast()
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	return true
}

func (c container) keepLast() {
	if t := c.status.State.Terminated; t != nil {
		c.status.LastTerminationState = corev1.ContainerState{Terminated: t}
	}
}

// seconds returns a time as the API stores it, in whole seconds.
func seconds(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t.Truncate(time.Second))
}

func isFalse(b *bool) bool { return b == nil || !*b }
