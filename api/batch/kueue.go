package batch

import (
	"cmp"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// KueueLabel names the queue from which Kueue, a controller of clusters, resumes a suspended Job. jobd has no such
// controller.
const KueueLabel = "kueue.x-k8s.io/queue-name"

// PrebuiltKey is an annotation of Jobs, in older versions of Kueue a label, that names the Workload that a manager of MultiKueue has
// made for a Job.
const PrebuiltKey = "kueue.x-k8s.io/prebuilt-workload-name"

// HandedOut returns the Workload of a Job that a manager of MultiKueue has handed out; empty for all others.
func HandedOut(meta *metav1.ObjectMeta) string {
	return cmp.Or(meta.Annotations[PrebuiltKey], meta.Labels[PrebuiltKey])
}

// AwaitsKueue reports whether a Job is suspended and meant to be resumed by a Kueue here. It stays suspended until somebody
// else resumes it.
func AwaitsKueue(meta *metav1.ObjectMeta, spec *batchv1.JobSpec) bool {
	_, queued := meta.Labels[KueueLabel]
	return queued && ptr.Deref(spec.Suspend, false) && HandedOut(meta) == ""
}

// kueueWarnings returns a warning that nobody will resume the Job; path is the path of its metadata.
func kueueWarnings(meta *metav1.ObjectMeta, spec *batchv1.JobSpec, path *field.Path) []string {
	if !AwaitsKueue(meta, spec) {
		return nil
	}
	return []string{fmt.Sprintf("%s: there is no Kueue in jobd, so the Job stays suspended until somebody resumes it: "+
		"set spec.suspend to false, or leave both suspend and this label out", path.Child("labels").Key(KueueLabel))}
}
