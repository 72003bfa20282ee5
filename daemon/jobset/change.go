package jobset

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
)

// Suspend suspends a Job, and reports whether it has changed.
func Suspend(j *batchv1.Job) bool {
	if ptr.Deref(j.Spec.Suspend, false) {
		return false
	}
	j.Spec.Suspend = ptr.To(true)
	j.Generation++
	return true
}

// Pause has a Job be paused as its JobSet is, or not, and reports whether it has changed.
func Pause(j *batchv1.Job, js *jobsetv1.JobSet) bool {
	since, paused := jobset.Paused(js)
	if was, is := j.Annotations[batch.PausedAnnotation]; is == paused && was == since {
		return false
	}
	if j.Annotations = maps.Clone(j.Annotations); paused {
		metav1.SetMetaDataAnnotation(&j.ObjectMeta, batch.PausedAnnotation, since)
	} else {
		delete(j.Annotations, batch.PausedAnnotation)
	}
	return true
}

// Resume lets a Job go on that is suspended, with what its group says by now about where pods run, and reports whether it has changed.
// What the Job has beside that stays, since others may have written it; so a toleration that the group has no more stays too.
func Resume(j *batchv1.Job, group *jobsetv1.ReplicatedJob) bool {
	if !ptr.Deref(j.Spec.Suspend, false) || group == nil {
		return false
	}
	j.Status.StartTime = nil
	to, from := &j.Spec.Template, &group.Template.Spec.Template
	to.Labels, to.Annotations = merged(to.Labels, from.Labels), merged(to.Annotations, from.Annotations)
	to.Spec.NodeSelector = merged(to.Spec.NodeSelector, from.Spec.NodeSelector)
	for _, t := range from.Spec.Tolerations {
		if !slices.ContainsFunc(to.Spec.Tolerations, func(has corev1.Toleration) bool { return equality.Semantic.DeepEqual(has, t) }) {
			to.Spec.Tolerations = append(to.Spec.Tolerations, t)
		}
	}
	for _, gate := range from.Spec.SchedulingGates {
		if !slices.Contains(to.Spec.SchedulingGates, gate) {
			to.Spec.SchedulingGates = append(to.Spec.SchedulingGates, gate)
		}
	}
	j.Spec.Suspend = ptr.To(false)
	j.Generation++
	return true
}

// merged returns a map with what another has.
func merged(to, from map[string]string) map[string]string {
	if len(from) == 0 {
		return to
	}
	out := maps.Clone(to)
	if out == nil {
		out = make(map[string]string, len(from))
	}
	maps.Copy(out, from)
	return out
}
