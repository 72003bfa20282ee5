package batch

// The description of the kind for the server. The rules are in job_*.go.

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/kind"
)

// JobKind describes batch/v1 Jobs.
func JobKind() *kind.Kind {
	return kind.Of[batchv1.Job, batchv1.JobList](kind.Description[*batchv1.Job]{
		GroupVersion: batchv1.SchemeGroupVersion,
		Name:         "Job",
		Categories:   []string{"all"},
		Namespaced:   true,
		Default:      SetJobDefaults,
		Fields:       jobFields(),
		Table:        jobTable(),
		Rules: kind.Rules[*batchv1.Job]{
			Create: PrepareJob,
			Update: prepareJobUpdate,
			Check: func(job *batchv1.Job) field.ErrorList {
				return append(ValidateJob(job), core.CheckTemplateSize(&job.Spec.Template, field.NewPath("spec", "template"))...)
			},
			CheckUpdate: func(job, old *batchv1.Job) field.ErrorList {
				return append(validateJobUpdate(job, old),
					core.CheckTemplateGrowth(&job.Spec.Template, &old.Spec.Template, field.NewPath("spec", "template"))...)
			},
			Warn:       jobWarnings,
			WarnUpdate: jobUpdateWarnings,
			// What batch/v1 has always done to the pods of a Job that is deleted without a policy.
			Dependents: rest.OrphanDependents,
			Reset:      kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*batchv1.Job]{
			"status": {
				Update:      prepareJobStatusUpdate,
				CheckUpdate: validateJobStatusUpdate,
				Reset:       kind.Path("spec"),
			},
		},
	})
}
