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

// StatusColumn is where STATUS is in the table of Jobs.
const StatusColumn = 1

// jobTable is what kubectl prints of Jobs. The server adds the place in the queue (api/server/queue_column.go).
func jobTable() kind.Columns[*batchv1.Job] {
	job, status := batchv1.Job{}.SwaggerDoc(), batchv1.JobStatus{}.SwaggerDoc()
	return append(kind.Columns[*batchv1.Job]{
		kind.NameColumn[*batchv1.Job](),
		{Name: "Status", Description: job["status"], Cell: func(job *batchv1.Job, now time.Time) any { return jobState(job, now) }},
		{Name: "Completions", Description: status["succeeded"], Cell: func(job *batchv1.Job, _ time.Time) any { return jobCompletions(job) }},
		{Name: "Duration", Description: "Time required to complete the job.",
			Cell: func(job *batchv1.Job, now time.Time) any { return jobDuration(job, now) }},
		kind.AgeColumn[*batchv1.Job](),
	}, templateColumns(func(job *batchv1.Job) *batchv1.JobSpec { return &job.Spec })...)
}

// templateColumns returns the columns of what a Job, or a Job of a CronJob, runs.
func templateColumns[T any](of func(T) *batchv1.JobSpec) kind.Columns[T] {
	return kind.Columns[T]{
		{Name: "Containers", Priority: 1, Description: "Names of each container in the template.",
			Cell: func(obj T, _ time.Time) any { return core.ContainerNames(of(obj).Template.Spec.Containers) }},
		{Name: "Images", Priority: 1, Description: "Images referenced by each container in the template.",
			Cell: func(obj T, _ time.Time) any { return core.ContainerImages(of(obj).Template.Spec.Containers) }},
		{Name: "Selector", Priority: 1, Description: batchv1.JobSpec{}.SwaggerDoc()["selector"],
			Cell: func(obj T, _ time.Time) any { return metav1.FormatLabelSelector(of(obj).Selector) }},
	}
}

// jobState returns the word in the column STATUS: how the Job ended, or what it does now.
func jobState(job *batchv1.Job, now time.Time) string {
	is := func(t batchv1.JobConditionType) bool { return ConditionTrue(job.Status.Conditions, t) }
	switch {
	case is(batchv1.JobComplete):
		return "Complete"
	case is(batchv1.JobFailed):
		return "Failed"
	case job.DeletionTimestamp != nil:
		return "Terminating"
	case Paused(job.Annotations) && State(job) == StatePaused:
		return StatePaused
	case Awaits(job):
		return heldShown(job, now)
	case groupShown(job) != "":
		return groupShown(job)
	case windowShown(job, now) != "":
		return windowShown(job, now)
	case is(batchv1.JobSuspended):
		return "Suspended"
	case is(batchv1.JobFailureTarget):
		return "FailureTarget"
	case is(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	case State(job) == StatePreempted:
		return StatePreempted
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

// jobDuration returns the time from the start to the completion, or until now: also for a Job that has failed, as in a cluster.
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

// ConditionTrue reports whether a condition of a Job is there and true.
func ConditionTrue(conditions []batchv1.JobCondition, t batchv1.JobConditionType) bool {
	for _, c := range conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
