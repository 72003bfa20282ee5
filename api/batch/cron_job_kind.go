package batch

// The description of the kind for the server. The rules are in cron_job.go.

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
		Default:    setCronJobDefaults,
		Table:      cronJobTable(),
		Rules: kind.Rules[*batchv1.CronJob]{
			Create:      prepareCronJob,
			Update:      prepareCronJobUpdate,
			Check:       validateCronJob,
			CheckUpdate: validateCronJobUpdate,
			Warn:        cronJobWarnings,
			WarnUpdate:  cronJobUpdateWarnings,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*batchv1.CronJob]{
			"status": {
				Update:      prepareCronJobStatusUpdate,
				CheckUpdate: validateCronJobStatusUpdate,
				Reset:       kind.Path("spec"),
			},
		},
	})
}
