package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// KueueLabel names the queue from which Kueue, a controller of clusters, resumes a suspended Job. There is none here.
const KueueLabel = "kueue.x-k8s.io/queue-name"

// AwaitsKueue reports whether a Job is suspended as one that Kueue is to resume. It stays so until somebody else does.
func AwaitsKueue(labels map[string]string, spec *batchv1.JobSpec) bool {
	_, queued := labels[KueueLabel]
	return queued && ptr.Deref(spec.Suspend, false)
}

// kueueWarnings says that nobody will resume the Job; path is that of its metadata.
func kueueWarnings(labels map[string]string, spec *batchv1.JobSpec, path *field.Path) []string {
	if !AwaitsKueue(labels, spec) {
		return nil
	}
	return []string{fmt.Sprintf("%s: there is no Kueue in jobd, so the Job stays suspended until somebody resumes it: "+
		"set spec.suspend to false, or leave both suspend and this label out", path.Child("labels").Key(KueueLabel))}
}
