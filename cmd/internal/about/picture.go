package about

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	wire "github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/cmd/internal/submit"
)

// Drawn are the kinds that have a picture.
var Drawn = []string{"jobs", "jobsets"}

// Picture asks the server for the picture of a Job, or for a part of it.
func Picture(ctx context.Context, client kubernetes.Interface, namespace, name string, o wire.Options, into any) error {
	request := client.BatchV1().RESTClient().Get().Namespace(namespace).Resource("jobs").Name(name).SubResource("picture")
	for parameter, values := range o.Parameters() {
		request.Param(parameter, values[0])
	}
	return notDrawn(answer(ctx, request, into), "Jobs", func() error {
		_, err := client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
}

// SetPicture asks the server for the picture of a JobSet.
func SetPicture(ctx context.Context, client kubernetes.Interface, namespace, name string) (*wire.SetPicture, error) {
	p := &wire.SetPicture{}
	request := client.Discovery().RESTClient().Get().AbsPath(submit.JobSetsPath(namespace), name, "picture")
	err := notDrawn(answer(ctx, request, p), "JobSets", func() error {
		_, err := submit.GetJobSet(ctx, client, namespace, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// notDrawn says what it means that there is no picture: that there is no object, which missing returns, or no jobd.
func notDrawn(err error, of string, missing func() error) error {
	if !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
		return err
	}
	if there := missing(); there != nil {
		return there
	}
	return fmt.Errorf("the server draws no pictures of %s: it is not jobd, or an older one", of)
}
