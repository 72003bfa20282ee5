package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
)

// jobWarnings returns the warnings that are sent with the response to the creation of a Job.
func jobWarnings(job *batchv1.Job) []string {
	return append(nameWarnings(job.Name), jobOwnWarnings(job)...)
}

func nameWarnings(name string) []string {
	bad := utilvalidation.IsDNS1123Label(name)
	if len(bad) == 0 {
		return nil
	}
	return []string{
		fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", bad),
	}
}

// jobUpdateWarnings are sent along with the answer to an update that changes the spec.
func jobUpdateWarnings(job, old *batchv1.Job) []string {
	if job.Generation == old.Generation {
		return nil
	}
	return append(resumedWarnings(job, old), jobOwnWarnings(job)...)
}

func jobOwnWarnings(job *batchv1.Job) []string {
	queued := kueueWarnings(&job.ObjectMeta, &job.Spec, field.NewPath("metadata"))
	queued = append(queued, oomWarnings(job.Annotations, &job.Spec, field.NewPath("metadata", "annotations"))...)
	return append(queued, jobSpecWarnings(&job.Spec, field.NewPath("spec"))...)
}

func jobSpecWarnings(spec *batchv1.JobSpec, path *field.Path) []string {
	var warnings []string
	if isIndexed(spec) && ptr.Deref(spec.Completions, 0) > manyCompletions &&
		ptr.Deref(spec.Parallelism, 0) > maxParallelismManyCompletions {
		warnings = append(warnings,
			"In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might "+
				"not be able to track completedIndexes when a big number of indexes fail")
	}
	warnings = append(warnings, schedulingWarnings(spec, path)...)
	return append(warnings, core.PodTemplateWarnings(&spec.Template, path.Child("template"))...)
}
