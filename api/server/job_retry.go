package server

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/jobd/jobd/api/batch"
)

// newJobRetry serves POST .../jobs/NAME/retry, which is jobd's own: a Job that has failed begins another attempt (batch.RetryJob).
func newJobRetry(jobs *registry.Store) jobChange[batch.Retry] {
	return jobChange[batch.Retry]{jobs: jobs, what: "a retry", apply: func(ctx context.Context, j *batchv1.Job, ask batch.Retry) error {
		by := ""
		if who, ok := request.UserFrom(ctx); ok {
			by = who.GetName()
		}
		return batch.RetryJob(j, ask, by, time.Now())
	}}
}
