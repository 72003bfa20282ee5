package server

import (
	"context"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/why"
)

// explanation serves GET .../NAME/why of Jobs, pods, CronJobs and JobSets: why the object is in the state that it is in.
type explanation struct {
	rawAnswer
	kind   *kind.Kind
	server *Server
}

var _ rest.Getter = &explanation{}

func (e *explanation) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	var m metav1.Object
	obj, err := e.objects.Get(ctx, name, &metav1.GetOptions{})
	switch {
	case errors.IsNotFound(err) && e.kind.Name == "Job" && e.server.config.Explainer != nil:
		// Something may be expected of its name.
		m = &metav1.ObjectMeta{Namespace: request.NamespaceValue(ctx), Name: name}
	case err != nil:
		return nil, err
	default:
		if m, err = meta.Accessor(obj); err != nil {
			return nil, err
		}
	}
	if e.server.config.Explainer == nil {
		return nil, errors.NewServiceUnavailable("this server has no explanations")
	}
	said, err := e.server.config.Explainer.Explain(ctx,
		why.Reference{Kind: e.kind.Name, Namespace: m.GetNamespace(), Name: m.GetName()}, e.server.mayRead(ctx))
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(said, "", "  ")
	if err != nil {
		return nil, err
	}
	return &rawJSON{of: m, json: append(text, '\n')}, nil
}

// mayRead returns a function that reports whether the client of a request may read a resource in a namespace: "pods",
// "pods/log", "jobs.batch".
func (s *Server) mayRead(ctx context.Context) func(resource, namespace string) bool {
	known := map[[2]string]bool{}
	return func(resource, namespace string) bool {
		key := [2]string{resource, namespace}
		if allowed, ok := known[key]; ok {
			return allowed
		}
		who, ok := request.UserFrom(ctx)
		if !ok {
			return false
		}
		whole, part, _ := strings.Cut(resource, "/")
		whole, group, _ := strings.Cut(whole, ".")
		decision, _, err := s.access.Authorize(ctx, authorizer.AttributesRecord{
			User: who, Verb: "get", Namespace: namespace, APIGroup: group, APIVersion: "v1", Resource: whole, Subresource: part,
			ResourceRequest: true,
		})
		known[key] = err == nil && decision == authorizer.DecisionAllow
		return known[key]
	}
}
