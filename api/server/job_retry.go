package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"

	"github.com/jobd/jobd/api/retry"
)

// maxRetryBody is how long the body of a retry may be, in bytes.
const maxRetryBody = 64 << 10

// jobRetry serves POST .../jobs/NAME/retry, which is jobd's own: a Job that has failed begins another attempt
// (retry.Begin). The body is a retry.Request as JSON, or empty. The answer is the Job.
type jobRetry struct {
	jobs *registry.Store
	// admits decides about the Job as about any other update: the image of a container may be another one.
	admits admission.ValidationInterface
}

var _ rest.Connecter = jobRetry{}

func (jobRetry) New() runtime.Object      { return &batchv1.Job{} }
func (jobRetry) Destroy()                 {}
func (jobRetry) ConnectMethods() []string { return []string{http.MethodPost} }

func (jobRetry) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

func (j jobRetry) Connect(ctx context.Context, name string, _ runtime.Object, responder rest.Responder) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		job, err := j.retry(ctx, w, r, name)
		if err != nil {
			responder.Error(err)
			return
		}
		responder.Object(http.StatusOK, job)
	}), nil
}

func (j jobRetry) retry(ctx context.Context, w http.ResponseWriter, r *http.Request, name string) (*batchv1.Job, error) {
	for name := range r.URL.Query() {
		if name != "timeout" && name != "pretty" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("a retry does not take the parameter %q", name))
		}
	}
	var ask retry.Request
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRetryBody))
	body.DisallowUnknownFields()
	if err := body.Decode(&ask); err != nil && !errors.Is(err, io.EOF) {
		return nil, apierrors.NewBadRequest("the body of a retry: " + err.Error())
	}
	by := ""
	who, ok := request.UserFrom(ctx)
	if ok {
		by = who.GetName()
	}
	key, err := j.jobs.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	job := &batchv1.Job{}
	err = j.jobs.Storage.GuaranteedUpdate(ctx, key, job, false, nil, apistorage.SimpleUpdate(func(current runtime.Object) (runtime.Object, error) {
		next := current.(*batchv1.Job)
		was := next.DeepCopy()
		if err := retry.Begin(next, ask, by, time.Now()); err != nil {
			return nil, err
		}
		return next, j.admits.Validate(ctx, admission.NewAttributesRecord(
			next, was, batchv1.SchemeGroupVersion.WithKind("Job"), next.Namespace, next.Name, batchv1.SchemeGroupVersion.WithResource("jobs"), "",
			admission.Update, &metav1.UpdateOptions{}, false, who), nil)
	}), false, nil)
	if err != nil {
		return nil, storageerrors.InterpretUpdateError(err, batchv1.Resource("jobs"), name)
	}
	return job, nil
}
