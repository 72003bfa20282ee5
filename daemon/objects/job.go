package objects

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/kueue"
)

// Finished reports whether a Job has ended (JobStatus.Conditions).
func Finished(j *batchv1.Job) bool { return batch.End(&j.Status) != nil }

// ControllingJob returns the UID of the Job that controls a pod, according to the pod; empty if there is none.
func ControllingJob(p *corev1.Pod) types.UID {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || owner.Kind != "Job" || !strings.HasPrefix(owner.APIVersion, batchv1.GroupName+"/") {
		return ""
	}
	return owner.UID
}

// JobReference returns the reference to a Job in an event.
func JobReference(j *batchv1.Job) corev1.ObjectReference { return batchReference("Job", j) }

// CronJobReference returns the reference to a CronJob in an event.
func CronJobReference(cj *batchv1.CronJob) corev1.ObjectReference {
	return batchReference("CronJob", cj)
}

// JobSetReference returns the reference to a JobSet in an event.
func JobSetReference(js *jobsetv1.JobSet) corev1.ObjectReference {
	return corev1.ObjectReference{
		Kind: "JobSet", APIVersion: jobsetv1.GroupVersion.String(), Namespace: js.Namespace, Name: js.Name, UID: js.UID,
	}
}

// WorkloadReference returns the reference to a Workload of Kueue in an event.
func WorkloadReference(w *kueue.Workload) corev1.ObjectReference {
	return corev1.ObjectReference{
		Kind: "Workload", APIVersion: kueue.GroupVersion.String(), Namespace: w.Namespace, Name: w.Name, UID: w.UID,
	}
}

// batchReference cannot fail, unlike client-go's reference.GetReference, and leaves out the object's version, since one
// event stands for all its repetitions.
func batchReference(kind string, obj metav1.Object) corev1.ObjectReference {
	return corev1.ObjectReference{
		Kind: kind, APIVersion: batchv1.SchemeGroupVersion.String(),
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
	}
}
