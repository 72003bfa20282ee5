package batch

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SetOf returns the name and the UID of the JobSet that controls a Job, according to the Job; both are empty for none. A Job that
// its creator gave a controller says so of one that exists (package admit).
func SetOf(job metav1.Object) (name string, uid types.UID) {
	owner := metav1.GetControllerOfNoCopy(job)
	if owner == nil || owner.Kind != "JobSet" || !strings.HasPrefix(owner.APIVersion, "jobset.x-k8s.io/") {
		return "", ""
	}
	return owner.Name, owner.UID
}

// SetIsFinal says why a JobSet, or a Job of one, is not retried, and what helps.
const SetIsFinal = "a JobSet begins its Jobs anew by itself, spec.failurePolicy.maxRestarts times, and once it has finished that is final: " +
	"create it anew, by jobctl submit --replace -f FILE"
