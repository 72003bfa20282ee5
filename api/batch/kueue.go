package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// KueueLabel names the queue from which Kueue, a controller of clusters, resumes a suspended Job. jobd has no such
// controller.
const KueueLabel = "kueue.x-k8s.io/queue-name"

// AwaitsKueue reports whether a Job is suspended and meant to be resumed by Kueue. It stays suspended until somebody
// else resumes it.
func AwaitsKueue(labels map[string]string, spec *batchv1.JobSpec) bool {
	_, queued := labels[KueueLabel]
	return queued && ptr.Deref(spec.Suspend, false)
}

// kueueWarnings returns a warning that nobody will resume the Job; path is the path of its metadata.
func kueueWarnings(labels map[string]string, spec *batchv1.JobSpec, path *field.Path) []string {
	if !AwaitsKueue(labels, spec) {
		return nil
	}
	return []string{fmt.Sprintf("%s: there is no Kueue in jobd, so the Job stays suspended until somebody resumes it: "+
		"set spec.suspend to false, or leave both suspend and this label out", path.Child("labels").Key(KueueLabel))}
}
