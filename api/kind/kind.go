// Package kind is how a group of the API describes the kinds it serves: typed functions go in, and a Kind comes out.
// Nothing else defines a kind: the server makes REST endpoints, tables, selectors and field ownership from it, and the
// scheme registers its types, defaults and field labels. Another kind is one more call of Of.
package kind

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Kind describes one served kind. Descriptions are made once and never changed.
type Kind struct {
	// GroupVersion is the version that is stored, and the first that is served.
	GroupVersion schema.GroupVersion
	// Name is the name of the kind: "Job".
	Name string
	// Resource is the plural in URLs, Singular what kubectl also takes.
	Resource, Singular     string
	ShortNames, Categories []string
	Namespaced             bool

	// New and NewList return empty objects of the stored Go type.
	New, NewList func() runtime.Object

	// Default fills in what a manifest left out. Nil when there is nothing to fill in.
	Default func(runtime.Object)

	// Strategy holds the rules for the object itself.
	Strategy Strategy
	// Subresources are those that read and write a part of the object itself: "status", "finalize". Others, such as a
	// pod's log, are part of the server.
	Subresources map[string]Strategy

	// Fields returns the values of the fields that field selectors may name in addition to metadata.name and
	// metadata.namespace.
	Fields map[string]func(runtime.Object) string

	// Columns and Cells make the table that kubectl prints. Nil: name and age.
	Columns []metav1.TableColumnDefinition
	Cells   func(obj runtime.Object, now time.Time) []any

	// AlsoIn names further groups in which the same objects are served in another shape.
	AlsoIn []Alias
}

// Alias is a second group that serves the same stored objects, converted.
type Alias struct {
	GroupVersion schema.GroupVersion
	// Register adds the conversions between both shapes to the scheme.
	Register func(*runtime.Scheme) error
	// Fields maps the names of fields in selectors to those of the stored kind.
	Fields map[string]string
	// Check and CheckUpdate replace those of the kind, which may use other names for fields. Nil: those of the kind
	// apply.
	Check       func(obj runtime.Object) field.ErrorList
	CheckUpdate func(obj, old runtime.Object) field.ErrorList
}

// GroupResource names the kind in keys of the store and in errors.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.GroupVersion.Group, Resource: k.Resource}
}

// Strategy is the part of the strategies of apiserver's registry that does not follow from the kind's description.
type Strategy interface {
	PrepareForCreate(ctx context.Context, obj runtime.Object)
	PrepareForUpdate(ctx context.Context, obj, old runtime.Object)
	Validate(ctx context.Context, obj runtime.Object) field.ErrorList
	ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList
	WarningsOnCreate(ctx context.Context, obj runtime.Object) []string
	WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string
	CheckGracefulDelete(ctx context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool
	DefaultGarbageCollectionPolicy(ctx context.Context) rest.GarbageCollectionPolicy
	AllowUnconditionalUpdate(ctx context.Context) bool
	AllowCreateOnUpdate(ctx context.Context) bool
	ResetFields() *fieldpath.Set
}
