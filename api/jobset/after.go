package jobset

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
)

// Awaits reports whether a JobSet is suspended until others have ended, when jobd resumes it (batch.AfterAnnotation).
func Awaits(js *jobsetv1.JobSet) bool {
	return js.Annotations[batch.AfterAnnotation] != "" && Suspended(js) && js.Annotations[batch.ResumedAnnotation] == "" &&
		js.DeletionTimestamp == nil && End(&js.Status) == nil && Managed(js) && len(batch.After(js.Annotations)) > 0
}

// Resume resumes a JobSet that was held back.
func Resume(js *jobsetv1.JobSet, now time.Time) {
	js.Spec.Suspend = ptr.To(false)
	js.Generation++
	metav1.SetMetaDataAnnotation(&js.ObjectMeta, batch.ResumedAnnotation, now.UTC().Format(time.RFC3339))
}

// SuspendsAgain reports whether a change suspends a JobSet that was held back once.
func SuspendsAgain(js, old *jobsetv1.JobSet) bool {
	return old.Annotations[batch.ResumedAnnotation] != "" && Suspended(js) && !Suspended(old) && js.Annotations[batch.AfterAnnotation] != ""
}

// updateWarnings warns whoever suspends a JobSet again that was held back once.
func updateWarnings(js, old *jobsetv1.JobSet) []string {
	if !SuspendsAgain(js, old) || End(&js.Status) != nil {
		return nil
	}
	return []string{batch.SuspendedAgain("JobSet", js.Annotations, old.Annotations)}
}

// validateAfter checks what holds back a JobSet. old are the annotations that it had so far; nil for a new one.
func validateAfter(js *jobsetv1.JobSet, old map[string]string, path *field.Path) field.ErrorList {
	text := js.Annotations[batch.AfterAnnotation]
	if was, had := old[batch.AfterAnnotation]; had && was == text {
		return nil
	}
	if at := old[batch.ResumedAnnotation]; at != "" && text != "" {
		return field.ErrorList{batch.NoEffect("JobSet", text, at, path.Key(batch.AfterAnnotation))}
	}
	return batch.ValidateAfter("JobSet", js.Annotations, Suspended(js), path)
}

// OwnJob reports whether a name is that of a Job that a JobSet makes.
func OwnJob(js *jobsetv1.JobSet, name string) bool {
	for i := range js.Spec.ReplicatedJobs {
		group := &js.Spec.ReplicatedJobs[i]
		if index, ok := IndexOf(js.Name, group.Name, name); ok && index < int(group.Replicas) {
			return true
		}
	}
	return false
}
