package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
)

// The labels that a Job's pods carried before labels had a prefix. Many scripts still select by them.
const (
	legacyControllerUIDLabel = "controller-uid"
	legacyJobNameLabel       = "job-name"
)

// PrepareJob brings a new Job into the form that is stored: generation 1, no status, no attempts before, and, unless the
// selector is the user's own (JobSpec.ManualSelector), a selector and template labels made from its uid and name, which
// must be set. Defaults must have been set.
func PrepareJob(job *batchv1.Job) {
	job.Generation = 1
	job.Status = batchv1.JobStatus{}
	delete(job.Annotations, AttemptsAnnotation)
	delete(job.Annotations, PausedForAnnotation)
	delete(job.Annotations, ResumedAnnotation)
	delete(job.Annotations, MovingAnnotation)
	delete(job.Annotations, clusters.OverflowedAnnotation)
	if !ptr.Deref(job.Spec.ManualSelector, false) {
		generateSelector(job)
	}
	copyTemplateLabels(job)
}

// generateSelector keeps labels that the manifest sets itself: validation refuses those that differ from the generated
// ones.
func generateSelector(job *batchv1.Job) {
	template := &job.Spec.Template
	for label, value := range generatedLabels(job) {
		metav1.SetMetaDataLabel(&template.ObjectMeta, label, valueOr(template.Labels, label, value))
	}
	if job.Spec.Selector == nil {
		job.Spec.Selector = &metav1.LabelSelector{}
	}
	s := job.Spec.Selector
	uid := valueOr(s.MatchLabels, batchv1.ControllerUidLabel, string(job.UID))
	s.MatchLabels = labelsWith(s.MatchLabels, batchv1.ControllerUidLabel, uid)
}

// generatedLabels returns the labels that every pod of a Job gets, unless the selector is the user's own.
func generatedLabels(job *batchv1.Job) map[string]string {
	return map[string]string{
		batchv1.ControllerUidLabel: string(job.UID),
		batchv1.JobNameLabel:       job.Name,
		legacyControllerUIDLabel:   string(job.UID),
		legacyJobNameLabel:         job.Name,
	}
}

func valueOr(labels map[string]string, key, value string) string {
	if present, ok := labels[key]; ok {
		return present
	}
	return value
}

func labelsWith(labels map[string]string, key, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

// prepareJobUpdate keeps the status and the attempts, which have subresources of their own, and counts the generation.
func prepareJobUpdate(job, old *batchv1.Job) {
	job.Status = old.Status
	keepWritten(job, old)
	keepResumed(job, old)
	job.Generation = old.Generation
	if !equality.Semantic.DeepEqual(job.Spec, old.Spec) {
		job.Generation++
	}
}

// prepareJobStatusUpdate keeps the spec: a write of the status changes the status, and labels and annotations.
func prepareJobStatusUpdate(job, old *batchv1.Job) {
	job.Spec = old.Spec
	job.Generation = old.Generation
	keepWritten(job, old)
	keepResumed(job, old)
}
