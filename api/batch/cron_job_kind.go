package batch

// The description of the kind for the server. What the rules are is said in cron_job.go.

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/kind"
)

// CronJobKind describes batch/v1 CronJobs.
func CronJobKind() *kind.Kind {
	return kind.Of[batchv1.CronJob, batchv1.CronJobList](kind.Description[*batchv1.CronJob]{
		GroupVersion: batchv1.SchemeGroupVersion,
		Name:         "CronJob",
		ShortNames:   []string{"cj"}, Categories: []string{"all"},
		Namespaced: true,
		Default:    SetCronJobDefaults,
		Columns:    CronJobColumns(),
		Cells:      CronJobCells,
		Rules: kind.Rules[*batchv1.CronJob]{
			Create:      PrepareCronJob,
			Update:      PrepareCronJobUpdate,
			Check:       ValidateCronJob,
			CheckUpdate: ValidateCronJobUpdate,
			Warn:        CronJobWarnings,
			WarnUpdate:  CronJobUpdateWarnings,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*batchv1.CronJob]{
			"status": {
				Update:      PrepareCronJobStatusUpdate,
				CheckUpdate: ValidateCronJobStatusUpdate,
				Reset:       kind.Path("spec"),
			},
		},
	})
}
