package elements

import (
	"reflect"
	"strings"
	"sync"

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
		if !v.IsNil() && hasLists(v.Type().Elem()) {
			t.value(v.Elem(), path)
		}
	case reflect.Struct:
		if v.Type() == managedType {
			t.managed(v.Addr().Interface().(*metav1.FieldsV1).GetRawBytes(), path)
			return
		}
		for _, i := range listsIn(v.Type()) {
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
		deep := hasLists(element)
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

var listFields sync.Map // of reflect.Type, the indexes of the fields with lists of structs in them

// listsIn returns which fields of a struct have lists or maps in them that count.
func listsIn(t reflect.Type) []int {
	if known, ok := listFields.Load(t); ok {
		return known.([]int)
	}
	var at []int
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && !manyTexts[strings.TrimPrefix(jsonName(f), ".")] &&
			leadsToLists(f.Type, map[reflect.Type]bool{t: true}) {
			at = append(at, i)
		}
	}
	listFields.Store(t, at)
	return at
}

// hasLists reports whether values of a type can have lists in them that count.
func hasLists(t reflect.Type) bool {
	if t.Kind() == reflect.Struct && t != managedType {
		return len(listsIn(t)) > 0
	}
	return leadsToLists(t, map[reflect.Type]bool{})
}

// leadsToLists is hasLists for a type within those of a set. One that contains itself counts as having lists.
func leadsToLists(t reflect.Type, within map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer:
		return leadsToLists(t.Elem(), within)
	case reflect.Map:
		return true
	case reflect.Slice:
		return isList(t)
	case reflect.Struct:
		if within[t] || t == managedType {
			return true
		}
		within[t] = true
		defer delete(within, t)
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && leadsToLists(f.Type, within) {
				return true
			}
		}
	}
	return false
}
