package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/why"
)

// explanation serves GET .../NAME/why of Jobs, pods and CronJobs: why the object is in the state that it is in.
type explanation struct {
	objects *registry.Store
	kind    *kind.Kind
	server  *Server
}

var (
	_ rest.Getter          = &explanation{}
	_ rest.StorageMetadata = &explanation{}
)

func (e *explanation) New() runtime.Object { return e.objects.New() }
func (e *explanation) Destroy()            {}

func (e *explanation) ProducesMIMETypes(string) []string { return []string{runtime.ContentTypeJSON} }
func (e *explanation) ProducesObject(string) any         { return "" }

func (e *explanation) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	obj, err := e.objects.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
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
	return &explained{of: m, json: append(text, '\n')}, nil
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
		decision, _, err := s.authorize(ctx, authorizer.AttributesRecord{
			User: who, Verb: "get", Namespace: namespace, APIGroup: group, APIVersion: "v1", Resource: whole, Subresource: part,
			ResourceRequest: true,
		})
		known[key] = err == nil && decision == authorizer.DecisionAllow
		return known[key]
	}
}

// explained is the response. Like a log it is no object of the API, but it is whole when it begins.
type explained struct {
	of   metav1.Object
	json []byte
}

var _ rest.ResourceStreamer = &explained{}

// GetObjectMeta returns the metadata for clients that request it as metadata only.
func (e *explained) GetObjectMeta() metav1.Object { return e.of }

func (e *explained) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (e *explained) DeepCopyObject() runtime.Object   { c := *e; return &c }

func (e *explained) InputStream(context.Context, string, string) (io.ReadCloser, bool, string, error) {
	return io.NopCloser(bytes.NewReader(e.json)), false, runtime.ContentTypeJSON, nil
}
