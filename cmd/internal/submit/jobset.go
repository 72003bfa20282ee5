package submit

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/why"
)

// JobSetsPath is where the API has the JobSets of a namespace.
func JobSetsPath(namespace string) string {
	return fmt.Sprintf("/apis/%s/namespaces/%s/jobsets", jobsetv1.GroupVersion, namespace)
}

// GetJobSet reads a JobSet.
func GetJobSet(ctx context.Context, client kubernetes.Interface, namespace, name string) (*jobsetv1.JobSet, error) {
	answer := client.Discovery().RESTClient().Get().AbsPath(JobSetsPath(namespace), name).
		SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx)
	if err := answer.Error(); err != nil { // not Raw's error, which does not have the server's words
		return nil, err
	}
	raw, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	js := &jobsetv1.JobSet{}
	return js, json.Unmarshal(raw, js)
}

// setsNamed are the JobSets of a name, of which there is one at a time.
func setsNamed(client dynamic.Interface, namespace, name string) *watched[*jobsetv1.JobSet] {
	api, only := client.Resource(jobsetv1.GroupVersion.WithResource("jobsets")).Namespace(namespace), "metadata.name="+name
	return &watched[*jobsetv1.JobSet]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]*jobsetv1.JobSet, string, error) {
			o.FieldSelector = only
			list, err := api.List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			all := make([]*jobsetv1.JobSet, len(list.Items))
			for i := range list.Items {
				if all[i], err = setOf(&list.Items[i]); err != nil {
					return nil, "", err
				}
			}
			return all, list.GetResourceVersion(), nil
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			stream, err := api.Watch(ctx, o)
			if err != nil {
				return nil, err
			}
			return watch.Filter(stream, func(e watch.Event) (watch.Event, bool) {
				if u, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Error {
					js, err := setOf(u)
					if err != nil {
						return e, false
					}
					e.Object = js
				}
				return e, true
			}), nil
		},
	}
}

func setOf(u *unstructured.Unstructured) (*jobsetv1.JobSet, error) {
	js := &jobsetv1.JobSet{}
	return js, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, js)
}

// AwaitEndOfSet returns the condition with which a JobSet finishes, as AwaitEnd does of a Job.
func AwaitEndOfSet(ctx context.Context, client dynamic.Interface, js *jobsetv1.JobSet, wait bool) (*metav1.Condition, error) {
	return awaitEnd(ctx, setsNamed(client, js.Namespace, js.Name), js, func(js *jobsetv1.JobSet) *metav1.Condition { return jobset.End(&js.Status) }, wait)
}

// CreateSet applies the objects beside the JobSet, and then creates it, as Create does a Job.
func (m *Manifests) CreateSet(ctx context.Context, client *Client, namespace string, dryRun bool) (*jobsetv1.JobSet, error) {
	js, err := m.createSet(ctx, client, namespace, dryRun)
	if err == nil {
		return js, nil
	}
	return nil, m.withHelp(err)
}

func (m *Manifests) createSet(ctx context.Context, client *Client, namespace string, dryRun bool) (*jobsetv1.JobSet, error) {
	u, options, err := m.prepare(ctx, client, namespace, dryRun)
	if err != nil {
		return nil, err
	}
	api := client.Dynamic.Resource(jobsetv1.GroupVersion.WithResource("jobsets")).Namespace(u.GetNamespace())
	created, err := api.Create(ctx, u, options)
	if apierrors.IsAlreadyExists(err) && m.Replace && !dryRun {
		var old *jobsetv1.JobSet
		if old, err = GetJobSet(ctx, client.Kubernetes, u.GetNamespace(), u.GetName()); err == nil {
			err = removeSet(ctx, client, old)
		}
		if err == nil || apierrors.IsNotFound(err) {
			created, err = api.Create(ctx, u, options)
		}
	}
	if apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("jobset %s exists already: choose another --name, replace it (--replace), or follow it with: jobctl follow jobsets/%[1]s%s%s",
			u.GetName(), why.InNamespace(u.GetNamespace()), client.Words)
	}
	if err != nil {
		return nil, err
	}
	return setOf(created)
}

// removeSet deletes a JobSet, and waits until it is gone with its Jobs.
func removeSet(ctx context.Context, client *Client, js *jobsetv1.JobSet) error {
	foreground := metav1.DeletePropagationForeground
	err := client.Dynamic.Resource(jobsetv1.GroupVersion.WithResource("jobsets")).Namespace(js.Namespace).Delete(ctx, js.Name, metav1.DeleteOptions{
		PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &js.UID},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	sets := setsNamed(client.Dynamic, js.Namespace, js.Name)
	sets.connected = func(error) {}
	sets.see = func(seen *jobsetv1.JobSet, deleted bool) {
		if deleted || seen.UID != js.UID {
			stop()
		}
	}
	if err := sets.run(watching, "", js); ctx.Err() != nil || watching.Err() == nil {
		return err
	}
	return nil
}
