package server

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/picture"
)

// Pictures draws Jobs and JobSets.
type Pictures interface {
	// Picture returns a picture.Picture of a Job, or what was asked for of it instead, as JSON. Lines that pods have
	// printed are left out unless withLogs.
	Picture(ctx context.Context, job *batchv1.Job, opts *picture.Options, withLogs bool) ([]byte, error)
	// SetPicture returns a picture.SetPicture of a JobSet as JSON.
	SetPicture(js *jobsetv1.JobSet) ([]byte, error)
}

// jobPicture serves GET .../jobs/NAME/picture.
type jobPicture struct {
	rawAnswer
	server *Server
}

var _ rest.GetterWithOptions = &jobPicture{}

func (p *jobPicture) NewGetOptions() (runtime.Object, bool, string) {
	return &picture.Options{}, false, ""
}

func (p *jobPicture) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	obj, err := p.objects.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	job := obj.(*batchv1.Job)
	may := p.server.mayRead(ctx)
	switch {
	case p.server.config.Pictures == nil:
		return nil, errors.NewServiceUnavailable("this server has no pictures")
	case !may("pods", job.Namespace):
		return nil, errors.NewForbidden(
			corev1.Resource("pods"), "",
			fmt.Errorf("the picture of a Job shows its pods, which you may not get in the namespace %q", job.Namespace),
		)
	}
	text, err := p.server.config.Pictures.Picture(ctx, job, options.(*picture.Options), may("pods/log", job.Namespace))
	if err != nil {
		return nil, err
	}
	return &rawJSON{of: job, json: text}, nil
}

// setPicture serves GET .../jobsets/NAME/picture.
type setPicture struct {
	rawAnswer
	server *Server
}

var _ rest.Getter = &setPicture{}

func (p *setPicture) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	obj, err := p.objects.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	js := obj.(*jobsetv1.JobSet)
	switch {
	case p.server.config.Pictures == nil:
		return nil, errors.NewServiceUnavailable("this server has no pictures")
	case !p.server.mayRead(ctx)("jobs.batch", js.Namespace):
		return nil, errors.NewForbidden(
			batchv1.Resource("jobs"), "",
			fmt.Errorf("the picture of a JobSet shows its Jobs, which you may not get in the namespace %q", js.Namespace),
		)
	}
	text, err := p.server.config.Pictures.SetPicture(js)
	if err != nil {
		return nil, err
	}
	return &rawJSON{of: js, json: text}, nil
}
