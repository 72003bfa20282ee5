package about

import (
	"context"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/submit"
)

// Why asks a server that knows it why an object is in its state.
func Why(ctx context.Context, client kubernetes.Interface, o Object) (*why.Explanation, error) {
	said := &why.Explanation{}
	if err := answer(ctx, askedWhy(client, o), said); err != nil {
		return nil, err
	}
	return said, nil
}

func askedWhy(client kubernetes.Interface, o Object) *rest.Request {
	api := client.BatchV1().RESTClient()
	switch o.Resource {
	case "jobsets":
		return client.Discovery().RESTClient().Get().AbsPath(submit.JobSetsPath(o.Namespace), o.Name, "why")
	case "pods":
		api = client.CoreV1().RESTClient()
	}
	return api.Get().Namespace(o.Namespace).Resource(o.Resource).Name(o.Name).SubResource("why")
}
