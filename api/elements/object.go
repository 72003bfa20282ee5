package elements

import (
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// InObject looks at an object, which can have more than the bodies that have made it: patches add to it. It also finds what could not
// be encoded.
func InObject(obj runtime.Object) *field.Error {
	var t tally
	if t.value(reflect.ValueOf(obj), ""); t.err == nil {
		t.err = unsayable(reflect.ValueOf(obj), "")
	}
	return t.err
}

// value counts in a value.
func (t *tally) value(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && lists.leads(v.Type().Elem()) {
			t.value(v.Elem(), path)
		}
	case reflect.Struct:
		if v.Type() == managedType {
			t.managed(v.Addr().Interface().(*metav1.FieldsV1).GetRawBytes(), path)
			return
		}
		for _, i := range lists.in(v.Type()) {
			if t.value(v.Field(i), path+jsonName(v.Type().Field(i))); t.err != nil {
				return
			}
		}
	case reflect.Map:
		for i := range v.Len() {
			if !t.keyOf(i + 1) {
				t.err = t.exceededKeys(path, v.Len())
				return
			}
		}
	case reflect.Slice:
		element := bare(v.Type().Elem())
		counts := t.list
		if element.Kind() != reflect.Struct {
			counts = t.scalarOf
		}
		deep := lists.leads(element)
		for i := range v.Len() {
			if !counts(i + 1) {
				t.err = t.exceeded(path, v.Len())
				return
			}
			if deep {
				if t.value(v.Index(i), at(path, i)); t.err != nil {
					return
				}
			}
		}
	}
}

// lists are the lists and maps that count.
var lists = &table{
	is: func(t reflect.Type) (is, ends bool) {
		return t == managedType || t.Kind() == reflect.Map || isList(t), t.Kind() == reflect.Slice
	},
	skips: func(f reflect.StructField) bool { return manyTexts[strings.TrimPrefix(jsonName(f), ".")] },
}
