package server

import (
	"bytes"
	"context"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// rawAnswer is what subresources have in common that are read, and whose answer is no object of the API: logs and JSON.
type rawAnswer struct {
	objects *registry.Store
	mime    string
}

var _ rest.StorageMetadata = rawAnswer{}

func (a rawAnswer) New() runtime.Object               { return a.objects.New() }
func (rawAnswer) Destroy()                            {}
func (a rawAnswer) ProducesMIMETypes(string) []string { return []string{a.mime} }
func (rawAnswer) ProducesObject(string) any           { return "" }

// rawJSON is an answer. Like a log it is no object of the API, but it is whole when it begins.
type rawJSON struct {
	of   metav1.Object
	json []byte
}

var _ rest.ResourceStreamer = &rawJSON{}

// GetObjectMeta returns the metadata for clients that request it as metadata only.
func (e *rawJSON) GetObjectMeta() metav1.Object { return e.of }

func (e *rawJSON) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (e *rawJSON) DeepCopyObject() runtime.Object   { c := *e; return &c }

func (e *rawJSON) InputStream(context.Context, string, string) (io.ReadCloser, bool, string, error) {
	return io.NopCloser(bytes.NewReader(e.json)), false, runtime.ContentTypeJSON, nil
}
