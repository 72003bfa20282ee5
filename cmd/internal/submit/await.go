package submit

import (
	"context"
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/batch"
)

// AwaitEnd returns the condition with which a Job finishes. If it has not finished, it fails with the error of ctx when
// that ends, and at once if it is not to wait.
func AwaitEnd(ctx context.Context, client kubernetes.Interface, j *batchv1.Job, wait bool) (*batchv1.JobCondition, error) {
	if end := batch.End(&j.Status); end != nil {
		return end, nil
	}
	if !wait {
		return nil, context.DeadlineExceeded
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var end *batchv1.JobCondition
	gone := false
	jobs := jobsNamed(client, j.Namespace, j.Name)
	jobs.connected = func(error) {}
	jobs.see = func(seen *batchv1.Job, deleted bool) {
		if seen.UID != j.UID || watching.Err() != nil {
			return
		}
		if end = batch.End(&seen.Status); end == nil && !deleted {
			return
		}
		gone = end == nil
		stop()
	}
	err := jobs.run(watching, j.ResourceVersion, j)
	switch {
	case end != nil:
		return end, nil
	case gone:
		return nil, errors.New("it was deleted before it had finished")
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, err
}

// jobsNamed are the Jobs of a name, of which there is one at a time.
func jobsNamed(client kubernetes.Interface, namespace, name string) *watched[*batchv1.Job] {
	api, only := client.BatchV1().Jobs(namespace), "metadata.name="+name
	return &watched[*batchv1.Job]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]*batchv1.Job, string, error) {
			o.FieldSelector = only
			list, err := api.List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(list.Items), list.ResourceVersion, nil
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return api.Watch(ctx, o)
		},
	}
}
