package server

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// fieldTypes is what server-side apply knows of the fields of all kinds. Objects as the handlers have them are not compared with
// the schema first: they are Go structs, from which the schema has been made, and whose lists may contain duplicates. That
// would take half of the time that a create spends on its managed fields.
type fieldTypes struct {
	managedfields.TypeConverter
	empty map[schema.GroupVersionKind]*typed.TypedValue // an object of each kind
}

// add takes in a kind; one without a schema stays with the library.
func (t *fieldTypes) add(kind schema.GroupVersionKind, sample runtime.Object) {
	sample.GetObjectKind().SetGroupVersionKind(kind)
	if empty, err := t.TypeConverter.ObjectToTyped(sample); err == nil {
		t.empty[kind] = empty
	}
}

// ObjectToTyped implements managedfields.TypeConverter. What a client applies is not a struct, and is validated.
func (t *fieldTypes) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	empty, known := t.empty[obj.GetObjectKind().GroupVersionKind()]
	_, untyped := obj.(*unstructured.Unstructured)
	if !known || untyped || !slices.Contains(options, typed.AllowDuplicates) {
		return t.TypeConverter.ObjectToTyped(obj, options...)
	}
	v, err := value.NewValueReflect(obj)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 validation is said to be cheap by now, which depends on what else there is to do
	return typed.AsTypedUnvalidated(v, empty.Schema(), empty.TypeRef()), nil
}
