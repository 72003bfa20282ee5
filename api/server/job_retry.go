package server

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/jobd/jobd/api/retry"
)

// newJobRetry serves POST .../jobs/NAME/retry, which is jobd's own: a Job that has failed begins another attempt (retry.Begin).
func newJobRetry(jobs *registry.Store, admits admission.ValidationInterface) jobChange[retry.Request] {
	return jobChange[retry.Request]{jobs: jobs, admits: admits, what: "a retry", apply: func(ctx context.Context, j *batchv1.Job, ask retry.Request) error {
		by := ""
		if who, ok := request.UserFrom(ctx); ok {
			by = who.GetName()
		}
		return retry.Begin(j, ask, by, time.Now())
	}}
}
