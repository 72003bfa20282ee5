package about

import (
	"context"
	"encoding/json"
	"errors"
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
	answer := request.Do(ctx)
	if err := answer.Error(); apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		if _, there := client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{}); there != nil {
			return there
		}
		return errors.New("the server draws no pictures of Jobs: it is not jobd, or an older one")
	} else if err != nil {
		return err
	}
	raw, err := answer.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	return nil
}

// SetPicture asks the server for the picture of a JobSet.
func SetPicture(ctx context.Context, client kubernetes.Interface, namespace, name string) (*wire.SetPicture, error) {
	answer := client.Discovery().RESTClient().Get().AbsPath(submit.JobSetsPath(namespace), name, "picture").Do(ctx)
	if err := answer.Error(); apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		if _, there := submit.GetJobSet(ctx, client, namespace, name); there != nil {
			return nil, there
		}
		return nil, errors.New("the server draws no pictures of JobSets: it is not jobd, or an older one")
	} else if err != nil {
		return nil, err
	}
	raw, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	p := &wire.SetPicture{}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	return p, nil
}
