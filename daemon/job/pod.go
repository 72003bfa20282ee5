package job

import (
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
)

// Pod is what a Record needs to know about a pod. It is not kept: the Record stores less.
type Pod struct {
	UID        types.UID
	Name       string
	Labels     map[string]string
	Controller types.UID // of the controlling owner; empty for an orphan

	Phase    corev1.PodPhase
	Tracked  bool // carries the finalizer batch.kubernetes.io/job-tracking
	Deleting bool
	Assigned bool // to a node
	Ready    bool
	// Displaced says that it is paused for pods of a higher priority (core.PodDisplaced).
	Displaced bool
	Restarts  int32 // of all containers, init containers included

	Index           int32 // completion index, -1 for none
	Failures        int32 // of the index before this pod, by backoffLimitPerIndex
	IgnoredFailures int32

	// Unix times; clusters compare them in whole seconds.
	Created, ReadySince, Finished int64

	OOMKilled []string // containers that were killed for want of memory
	OOMKills  int32    // such kills before this pod

	// The rules of podFailurePolicy refer to these.
	Exits      []batch.Exit
	Conditions []corev1.PodCondition
}

// Summarize returns what decisions need of a stored pod.
func Summarize(pod *corev1.Pod) Pod {
	p := Pod{
		UID:        pod.UID,
		Name:       pod.Name,
		Labels:     pod.Labels,
		Phase:      pod.Status.Phase,
		Tracked:    tracked(pod),
		Deleting:   pod.DeletionTimestamp != nil,
		Assigned:   podspec.Bound(pod),
		Index:      number(pod.Annotations, batchv1.JobCompletionIndexAnnotation, -1),
		Failures:   number(pod.Annotations, batchv1.JobIndexFailureCountAnnotation, 0),
		Created:    pod.CreationTimestamp.Unix(),
		Finished:   finishTime(pod).Unix(),
		Exits:      batch.ExitsOf(pod),
		Conditions: pod.Status.Conditions,
	}
	_, p.Displaced = core.DisplacedSince(pod)
	p.IgnoredFailures = number(pod.Annotations, batchv1.JobIndexIgnoredFailureCountAnnotation, 0)
	p.OOMKills = number(pod.Annotations, batch.OOMKillsAnnotation, 0)
	p.OOMKilled = outOfMemory(pod)
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		p.Controller = owner.UID
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			p.Ready, p.ReadySince = true, c.LastTransitionTime.Unix()
		}
	}
	for s := range podspec.Statuses(pod) {
		p.Restarts += s.RestartCount
	}
	return p
}

func tracked(pod *corev1.Pod) bool {
	for _, f := range pod.Finalizers {
		if f == batchv1.JobTrackingFinalizer {
			return true
		}
	}
	return false
}

// number returns the count in an annotation, or other if it is missing, malformed or negative.
func number(annotations map[string]string, key string, other int32) int32 {
	s, ok := annotations[key]
	if !ok {
		return other
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return other
	}
	return int32(n)
}

// finishTime returns when a pod ended, for the back-off: when the last of its containers did. If that is not known it
// is when the pod ceased to be ready, or else when its deletion was requested, or else when it was created.
func finishTime(pod *corev1.Pod) time.Time {
	if t := containersEnd(pod); !t.IsZero() {
		return t
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if pod.DeletionTimestamp != nil {
		var grace int64
		if pod.DeletionGracePeriodSeconds != nil {
			grace = *pod.DeletionGracePeriodSeconds
		}
		return pod.DeletionTimestamp.Add(-podspec.Seconds(grace))
	}
	return pod.CreationTimestamp.Time
}

// containersEnd returns the latest end of the main containers and the sidecars, zero unless all have ended.
func containersEnd(pod *corev1.Pod) time.Time {
	var last time.Time
	note := func(c *corev1.ContainerStatus) bool {
		end := c.State.Terminated
		if end == nil || end.FinishedAt.IsZero() {
			return false
		}
		if end.FinishedAt.After(last) {
			last = end.FinishedAt.Time
		}
		return true
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return time.Time{}
	}
	for i := range pod.Status.ContainerStatuses {
		if !note(&pod.Status.ContainerStatuses[i]) {
			return time.Time{}
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if !podspec.IsSidecar(c) {
			continue
		}
		for j := range pod.Status.InitContainerStatuses {
			if s := &pod.Status.InitContainerStatuses[j]; s.Name == c.Name && !note(s) {
				return time.Time{}
			}
		}
	}
	return last
}
