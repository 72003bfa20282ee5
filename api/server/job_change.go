package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

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
)

// maxChangeBody is how long the body of a change may be, in bytes.
const maxChangeBody = 64 << 10

// jobChange is a POST to a part of a Job that changes the Job by a rule of its own. The body is an Ask as JSON, or empty. The answer is
// the Job.
type jobChange[Ask any] struct {
	jobs *registry.Store
	// admits decides about the Job as about any other update: its containers may have other images, say.
	admits admission.ValidationInterface
	what   string // "a retry"
	// apply changes a Job that was read. It may be called several times.
	apply func(ctx context.Context, j *batchv1.Job, ask Ask) error
	// within returns the context in which the Job is written; nil: that of the request.
	within func(context.Context) context.Context
}

var _ rest.Connecter = jobChange[struct{}]{}

func (jobChange[Ask]) New() runtime.Object      { return &batchv1.Job{} }
func (jobChange[Ask]) Destroy()                 {}
func (jobChange[Ask]) ConnectMethods() []string { return []string{http.MethodPost} }

func (jobChange[Ask]) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

func (c jobChange[Ask]) Connect(ctx context.Context, name string, _ runtime.Object, responder rest.Responder) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		job, err := c.change(ctx, w, r, name)
		if err != nil {
			responder.Error(err)
			return
		}
		responder.Object(http.StatusOK, job)
	}), nil
}

func (c jobChange[Ask]) change(ctx context.Context, w http.ResponseWriter, r *http.Request, name string) (*batchv1.Job, error) {
	for name := range r.URL.Query() {
		if name != "timeout" && name != "pretty" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("%s does not take the parameter %q", c.what, name))
		}
	}
	var ask Ask
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxChangeBody))
	body.DisallowUnknownFields()
	if err := body.Decode(&ask); err != nil && !errors.Is(err, io.EOF) {
		return nil, apierrors.NewBadRequest("the body of " + c.what + ": " + err.Error())
	}
	key, err := c.jobs.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	who, _ := request.UserFrom(ctx)
	writing := ctx
	if c.within != nil {
		writing = c.within(ctx)
	}
	job := &batchv1.Job{}
	err = c.jobs.Storage.GuaranteedUpdate(writing, key, job, false, nil, apistorage.SimpleUpdate(func(current runtime.Object) (runtime.Object, error) {
		next := current.(*batchv1.Job)
		was := next.DeepCopy()
		if err := c.apply(ctx, next, ask); err != nil {
			return nil, err
		}
		return next, c.admits.Validate(ctx, admission.NewAttributesRecord(
			next, was, batchv1.SchemeGroupVersion.WithKind("Job"), next.Namespace, next.Name, batchv1.SchemeGroupVersion.WithResource("jobs"), "",
			admission.Update, &metav1.UpdateOptions{}, false, who), nil)
	}), false, nil)
	if err != nil {
		return nil, storageerrors.InterpretUpdateError(err, batchv1.Resource("jobs"), name)
	}
	return job, nil
}
