package submit

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
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
