package batch

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/kind"
)

// jobColumns returns the columns of the table that kubectl prints for Jobs; columns of priority 1 are shown with -o
// wide.
func jobColumns() []metav1.TableColumnDefinition {
	job, spec, status := batchv1.Job{}.SwaggerDoc(), batchv1.JobSpec{}.SwaggerDoc(), batchv1.JobStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		kind.NameColumn(),
		{Name: "Status", Type: "string", Description: job["status"]},
		{Name: "Completions", Type: "string", Description: status["succeeded"]},
		{Name: "Duration", Type: "string", Description: "Time required to complete the job."},
		kind.AgeColumn(),
		{Name: "Containers", Type: "string", Priority: 1, Description: "Names of each container in the template."},
		{Name: "Images", Type: "string", Priority: 1,
			Description: "Images referenced by each container in the template."},
		{Name: "Selector", Type: "string", Priority: 1, Description: spec["selector"]},
	}
}

// jobCells returns one row of that table.
func jobCells(job *batchv1.Job, now time.Time) []any {
	names, images := core.ContainerNamesAndImages(job.Spec.Template.Spec.Containers)
	return []any{
		job.Name, jobState(job), jobCompletions(job), jobDuration(job, now), core.Age(job.CreationTimestamp, now),
		names, images, metav1.FormatLabelSelector(job.Spec.Selector),
	}
}

// jobState returns the word in the column STATUS: how the Job ended, or what it does now.
func jobState(job *batchv1.Job) string {
	is := func(t batchv1.JobConditionType) bool { return conditionTrue(job.Status.Conditions, t) }
	switch {
	case is(batchv1.JobComplete):
		return "Complete"
	case is(batchv1.JobFailed):
		return "Failed"
	case job.DeletionTimestamp != nil:
		return "Terminating"
	case is(batchv1.JobSuspended):
		return "Suspended"
	case is(batchv1.JobFailureTarget):
		return "FailureTarget"
	case is(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func jobCompletions(job *batchv1.Job) string {
	switch {
	case job.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", job.Status.Succeeded, *job.Spec.Completions)
	case ptr.Deref(job.Spec.Parallelism, 0) > 1:
		return fmt.Sprintf("%d/1 of %d", job.Status.Succeeded, *job.Spec.Parallelism)
	}
	return fmt.Sprintf("%d/1", job.Status.Succeeded)
}

// jobDuration returns the time from the start to the completion, or until now for a Job that has neither completed nor
// failed.
func jobDuration(job *batchv1.Job, now time.Time) string {
	start, end := job.Status.StartTime, job.Status.CompletionTime
	switch {
	case start == nil:
		return ""
	case end == nil:
		return duration.HumanDuration(now.Sub(start.Time))
	}
	return duration.HumanDuration(end.Sub(start.Time))
}

func conditionTrue(conditions []batchv1.JobCondition, t batchv1.JobConditionType) bool {
	for _, c := range conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
