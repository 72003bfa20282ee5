package core

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/podspec"
)

const none = "<none>"

// podRow is what kubectl's table shows of a Pod.
type podRow struct {
	*corev1.Pod
	podSummary
}

// podTable is what kubectl prints of Pods. Three of the cells follow from one look at the containers.
func podTable() kind.Summarized[*corev1.Pod, podRow] {
	spec, status := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	return kind.Summarized[*corev1.Pod, podRow]{
		Summary: func(pod *corev1.Pod) podRow { return podRow{pod, summarize(pod)} },
		Columns: kind.Columns[podRow]{
			kind.NameColumn[podRow](),
			{Name: "Ready", Description: "The aggregate readiness state of this pod for accepting traffic.",
				Cell: func(r podRow, _ time.Time) any { return fmt.Sprintf("%d/%d", r.ready, r.containers) }},
			{Name: "Status", Description: "The aggregate status of the containers in this pod.",
				Cell: func(r podRow, _ time.Time) any { return r.word }},
			{Name: "Restarts",
				Description: "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
				Cell:        func(r podRow, now time.Time) any { return r.restarted(now) }},
			kind.AgeColumn[podRow](),
			{Name: "IP", Priority: 1, Description: status["podIP"],
				Cell: func(r podRow, _ time.Time) any { return cmp.Or(podIP(r.Pod), none) }},
			{Name: "Node", Priority: 1, Description: spec["nodeName"],
				Cell: func(r podRow, _ time.Time) any { return cmp.Or(r.Spec.NodeName, none) }},
			{Name: "Nominated Node", Priority: 1, Description: status["nominatedNodeName"],
				Cell: func(r podRow, _ time.Time) any { return cmp.Or(r.Status.NominatedNodeName, none) }},
			{Name: "Readiness Gates", Priority: 1, Description: spec["readinessGates"],
				Cell: func(r podRow, _ time.Time) any { return readinessGates(r.Pod) }},
		},
	}
}

func readinessGates(pod *corev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return none
	}
	open := 0
	for _, gate := range pod.Spec.ReadinessGates {
		if podCondition(pod, gate.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(pod.Spec.ReadinessGates))
}

func podCondition(pod *corev1.Pod, t corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// podSummary holds what kubectl's table shows of a Pod's containers.
type podSummary struct {
	word              string
	ready, containers int
	restarts          int
	lastRestart       time.Time
}

func (s podSummary) restarted(now time.Time) string {
	n := strconv.Itoa(s.restarts)
	if s.restarts == 0 || s.lastRestart.IsZero() {
		return n
	}
	return fmt.Sprintf("%s (%s ago)", n, kind.Age(metav1.NewTime(s.lastRestart), now))
}

// count adds the restarts of a container.
func (s *podSummary) count(c *corev1.ContainerStatus) {
	s.restarts += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(s.lastRestart) {
		s.lastRestart = t.FinishedAt.Time
	}
}

// summarize finds the one word for a Pod: the state of its first stuck init container, or else of its first container
// with a reason.
func summarize(pod *corev1.Pod) podSummary {
	s := podSummary{word: string(pod.Status.Phase), containers: len(pod.Spec.Containers)}
	if pod.Status.Reason != "" {
		s.word = pod.Status.Reason
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.word = corev1.PodReasonSchedulingGated
		}
	}
	sidecars := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		if podspec.IsSidecar(&pod.Spec.InitContainers[i]) {
			sidecars[pod.Spec.InitContainers[i].Name] = true
			s.containers++
		}
	}

	initializing := s.initContainers(pod, sidecars)
	if !initializing || podCondition(pod, corev1.PodInitialized) {
		s.mainContainers(pod, sidecars)
	}

	if pod.DeletionTimestamp != nil {
		switch {
		case pod.Status.Reason == "NodeLost":
			s.word = "Unknown"
		case !podspec.Ended(pod):
			s.word = "Terminating"
		}
	}
	return s
}

// initContainers reports whether an init container has yet to end.
func (s *podSummary) initContainers(pod *corev1.Pod, sidecars map[string]bool) bool {
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		s.count(c)
		ended, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case ended != nil && ended.ExitCode == 0:
			continue
		case sidecars[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case ended != nil:
			s.word = "Init:" + endedWord(ended)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.word = "Init:" + waiting.Reason
		default:
			s.word = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
		return true
	}
	return false
}

// mainContainers counts afresh: restarts of init containers that have ended are history.
func (s *podSummary) mainContainers(pod *corev1.Pod, sidecars map[string]bool) {
	s.restarts, s.lastRestart = 0, time.Time{}
	for i := range pod.Status.InitContainerStatuses {
		if c := &pod.Status.InitContainerStatuses[i]; sidecars[c.Name] {
			s.count(c)
		}
	}
	running := false
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- { // backwards, so that the first one prevails
		c := &pod.Status.ContainerStatuses[i]
		s.count(c)
		switch waiting, ended := c.State.Waiting, c.State.Terminated; {
		case waiting != nil && waiting.Reason != "":
			s.word = waiting.Reason
		case ended != nil:
			s.word = endedWord(ended)
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.word == "Completed" && running {
		s.word = "NotReady"
		if podCondition(pod, corev1.PodReady) {
			s.word = "Running"
		}
	}
}

func endedWord(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}
