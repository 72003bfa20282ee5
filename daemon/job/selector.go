package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Matches reports whether spec.selector selects a pod with these labels.
func (r *Record) Matches(l map[string]string) bool {
	if r.selector == nil {
		uid, ok := l[batchv1.ControllerUidLabel]
		return ok && uid == string(r.uid)
	}
	return r.selector.Matches(labels.Set(l))
}

// selectsByUID reports whether a Job has the selector that is made for those that bring none. It need not be kept.
func selectsByUID(job *batchv1.Job) bool {
	s := job.Spec.Selector
	return s != nil && len(s.MatchExpressions) == 0 && len(s.MatchLabels) == 1 && job.UID != "" &&
		s.MatchLabels[batchv1.ControllerUidLabel] == string(job.UID)
}

// Adopts reports whether the Job adopts orphans with these labels. SetPod is to be called with them.
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

// claim returns what a pod is to the Job. A Job that is being deleted neither adopts nor releases pods.
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

// Adopt makes the Job the controller of an orphan, and adds the tracking finalizer.
func Adopt(job *batchv1.Job, pod *corev1.Pod) {
	pod.OwnerReferences = append(slices.Clip(pod.OwnerReferences), controllerReference(job))
	if !tracked(pod) {
		pod.Finalizers = append(slices.Clip(pod.Finalizers), batchv1.JobTrackingFinalizer)
	}
}

// Orphan removes an owner and the tracking finalizer from a pod.
func Orphan(owner types.UID, pod *corev1.Pod) {
	pod.OwnerReferences = slices.DeleteFunc(slices.Clone(pod.OwnerReferences),
		func(o metav1.OwnerReference) bool { return o.UID == owner })
	Untrack(pod)
}

// Untrack removes the tracking finalizer from a pod, and reports whether there was one.
func Untrack(pod *corev1.Pod) bool {
	if !tracked(pod) {
		return false
	}
	pod.Finalizers = slices.DeleteFunc(slices.Clone(pod.Finalizers),
		func(f string) bool { return f == batchv1.JobTrackingFinalizer })
	if len(pod.Finalizers) == 0 {
		pod.Finalizers = nil
	}
	return true
}

func controllerReference(job *batchv1.Job) metav1.OwnerReference {
	return *metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))
}
