package submit

import (
	"context"
	"errors"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/batch"
)

// AwaitEnd returns the condition with which a Job finishes. If it has not finished, it fails with the error of ctx when
// that ends, and at once if it is not to wait.
func AwaitEnd(ctx context.Context, client kubernetes.Interface, j *batchv1.Job, wait bool) (*batchv1.JobCondition, error) {
	return awaitEnd(ctx, jobsNamed(client, j.Namespace, j.Name), j, func(j *batchv1.Job) *batchv1.JobCondition { return batch.End(&j.Status) }, wait)
}

// awaitEnd watches an object until end returns something of it.
func awaitEnd[T metav1.Object, C any](ctx context.Context, objects *watched[T], known T, end func(T) *C, wait bool) (*C, error) {
	last := end(known)
	if last != nil {
		return last, nil
	}
	if !wait {
		return nil, context.DeadlineExceeded
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	gone := false
	objects.connected = func(error) {}
	objects.see = func(seen T, deleted bool) {
		if seen.GetUID() != known.GetUID() || watching.Err() != nil {
			return
		}
		if last = end(seen); last == nil && !deleted {
			return
		}
		gone = last == nil
		stop()
	}
	err := objects.run(watching, known.GetResourceVersion(), known)
	switch {
	case last != nil:
		return last, nil
	case gone:
		return nil, errors.New("it was deleted before it had finished")
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, err
}

// jobsNamed are the Jobs of a name, of which there is one at a time.
func jobsNamed(client kubernetes.Interface, namespace, name string) *watched[*batchv1.Job] {
	return jobsOf(client, namespace, func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + name })
}

// jobsOf are the Jobs of a namespace that options choose.
func jobsOf(client kubernetes.Interface, namespace string, choose func(*metav1.ListOptions)) *watched[*batchv1.Job] {
	api := client.BatchV1().Jobs(namespace)
	return &watched[*batchv1.Job]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]*batchv1.Job, string, error) {
			choose(&o)
			list, err := api.List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(list.Items), list.ResourceVersion, nil
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			choose(&o)
			return api.Watch(ctx, o)
		},
	}
}

// podsOf are the pods of a Job.
func podsOf(client kubernetes.Interface, j *batchv1.Job) *watched[*corev1.Pod] {
	api, selector := client.CoreV1().Pods(j.Namespace), selectorOf(j)
	return &watched[*corev1.Pod]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]*corev1.Pod, string, error) {
			o.LabelSelector = selector
			list, err := api.List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(list.Items), list.ResourceVersion, nil
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return api.Watch(ctx, o)
		},
	}
}

// Seen is called with what is seen of a Job, by several goroutines.
type Seen struct {
	Job func(j *batchv1.Job, deleted bool)
	Pod func(p *corev1.Pod, deleted bool)
	// Connected is called with nil when the server answers, and with the error when it does not. Refused is called once: it does not want to.
	Connected, Refused func(error)
}

// Watch watches a Job and its pods until ctx ends; then Wait of what it returns returns.
func (c *Client) Watch(ctx context.Context, j *batchv1.Job, seen Seen) *sync.WaitGroup {
	jobs, pods := jobsNamed(c.Kubernetes, j.Namespace, j.Name), podsOf(c.Kubernetes, j)
	jobs.see, jobs.connected = seen.Job, seen.Connected
	pods.see, pods.connected = seen.Pod, func(error) {} // the watch of the Job says it
	ends := &sync.WaitGroup{}
	for _, watch := range []func() error{
		func() error { return jobs.run(ctx, j.ResourceVersion, j) },
		func() error { return pods.run(ctx, "") },
	} {
		ends.Go(func() {
			if err := watch(); ctx.Err() == nil {
				seen.Refused(err)
			}
		})
	}
	return ends
}

// ResultOf returns how a Job has ended, by its pods as they are now.
func ResultOf(ctx context.Context, client kubernetes.Interface, j *batchv1.Job) (Result, error) {
	f := newFailures(j)
	list, err := client.CoreV1().Pods(j.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selectorOf(j)})
	if err != nil {
		return Result{}, err
	}
	for i := range list.Items {
		f.see(&list.Items[i])
	}
	return f.result(j), nil
}
