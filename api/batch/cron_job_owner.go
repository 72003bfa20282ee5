package batch

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CronJobOf returns the name and the UID of the CronJob that controls a Job, according to the Job; both are empty for none. A Job that
// its creator gave a controller says so of one that exists (package admit).
func CronJobOf(job metav1.Object) (name string, uid types.UID) {
	owner := metav1.GetControllerOfNoCopy(job)
	if owner == nil || owner.Kind != "CronJob" || !strings.HasPrefix(owner.APIVersion, batchv1.GroupName+"/") {
		return "", ""
	}
	return owner.Name, owner.UID
}

// IsRunOf reports whether a CronJob controls a Job.
func IsRunOf(job *batchv1.Job, cj *batchv1.CronJob) bool {
	name, uid := CronJobOf(job)
	return uid == cj.UID && name == cj.Name && job.Namespace == cj.Namespace
}
