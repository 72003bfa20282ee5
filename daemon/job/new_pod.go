package job

import (
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
)

// NewPod is a pod to be created.
type NewPod struct {
	Index int32 // completion index, -1 unless the Job is Indexed

	// PerIndex says that the pod is to be annotated with the failures of its index before it.
	PerIndex                  bool
	Failures, IgnoredFailures int32

	Grown Growth // how much more memory it has than the template says
}

const (
	suffixLength = 5
	// maxGenerateName leaves room for the suffix in a label's 63 characters, as clusters cut names.
	maxGenerateName = 63 - suffixLength
)

// NewPodFor makes a pod from the Job's template as a cluster's controller does. The suffix of its name has 5
// characters. Defaults, UID and creation time are left to the caller.
func NewPodFor(job *batchv1.Job, n NewPod, suffix string) *corev1.Pod {
	template := &job.Spec.Template
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       job.Namespace,
			GenerateName:    job.Name + "-",
			Labels:          maps.Clone(template.Labels),
			Annotations:     maps.Clone(template.Annotations),
			OwnerReferences: []metav1.OwnerReference{controllerReference(job)},
			Finalizers:      slices.Clone(template.Finalizers),
		},
		Spec: *template.Spec.DeepCopy(),
	}
	if !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if n.Index >= 0 {
		end := "-" + strconv.Itoa(int(n.Index)) + "-"
		pod.GenerateName = job.Name[:min(len(job.Name), maxGenerateName-len(end))] + end
		setIndex(pod, job.Name, n.Index)
		if values := job.Annotations[batch.IndexEnvAnnotation]; values != "" {
			batch.SetIndexEnv(&pod.Spec, values, int(n.Index))
			put(&pod.Annotations, batch.IndexEnvAnnotation, values)
		}
		if task := batch.ArrayTask(job, int(n.Index)); task != "" {
			put(&pod.Annotations, batch.ArrayAnnotation, task)
		}
	}
	growPod(pod, job.Annotations, n.Grown)
	if attempt := batch.AttemptOf(job.Annotations); attempt > 1 {
		put(&pod.Annotations, batch.AttemptAnnotation, strconv.Itoa(attempt))
	}
	if batch.KeepsLogs(&job.ObjectMeta) {
		put(&pod.Annotations, batch.KeepLogsAnnotation, "true")
	}
	if at := batch.ScheduledAt(job.Annotations); at != "" {
		put(&pod.Annotations, batchv1.CronJobScheduledTimestampAnnotation, at)
	}
	if n.PerIndex {
		put(&pod.Annotations, batchv1.JobIndexFailureCountAnnotation, strconv.Itoa(int(n.Failures)))
		if n.IgnoredFailures > 0 {
			put(&pod.Annotations, batchv1.JobIndexIgnoredFailureCountAnnotation, strconv.Itoa(int(n.IgnoredFailures)))
		}
	}
	pod.Name = pod.GenerateName[:min(len(pod.GenerateName), maxGenerateName)] + suffix
	return pod
}
