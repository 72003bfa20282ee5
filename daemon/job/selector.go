package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Matches tells whether spec.selector selects a pod with these labels.
func (r *Record) Matches(l map[string]string) bool { return r.selector.Matches(labels.Set(l)) }

// Adopts tells whether the Job takes in orphans with these labels. They are to be given to SetPod.
func (r *Record) Adopts(l map[string]string) bool {
	return !r.deleting && !r.Finished() && r.Matches(l)
}

type claim uint8

const (
	foreign claim = iota
	ours
	adoptable
	leaving // ours, but no longer selected
)

// claim says what a pod is to the Job. A Job that is being deleted neither adopts nor lets go.
func (r *Record) claim(p *Pod) claim {
	switch selected := r.Matches(p.Labels); {
	case p.Controller == r.uid && selected:
		return ours
	case p.Controller == r.uid && !r.deleting:
		return leaving
	case p.Controller == "" && selected && !r.deleting && !p.Deleting:
		return adoptable
	}
	return foreign
}

// Adopt makes the Job the controller of an orphan and tracks it.
func Adopt(job *batchv1.Job, pod *corev1.Pod) {
	pod.OwnerReferences = append(slices.Clip(pod.OwnerReferences), controllerReference(job))
	if !tracked(pod) {
		pod.Finalizers = append(slices.Clip(pod.Finalizers), batchv1.JobTrackingFinalizer)
	}
}

// Orphan lets a pod go: it has no owner of that UID any more, and is not tracked.
func Orphan(owner types.UID, pod *corev1.Pod) {
	pod.OwnerReferences = slices.DeleteFunc(slices.Clone(pod.OwnerReferences), func(o metav1.OwnerReference) bool { return o.UID == owner })
	Untrack(pod)
}

// Untrack takes the tracking finalizer from a pod and tells whether there was one.
func Untrack(pod *corev1.Pod) bool {
	if !tracked(pod) {
		return false
	}
	pod.Finalizers = slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == batchv1.JobTrackingFinalizer })
	if len(pod.Finalizers) == 0 {
		pod.Finalizers = nil
	}
	return true
}

func controllerReference(job *batchv1.Job) metav1.OwnerReference {
	return *metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))
}
