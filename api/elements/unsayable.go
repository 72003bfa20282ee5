package elements

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What can be decoded and not encoded again: then no list that has such an object in it can be answered, and nothing be written that
// is made of it. A time may have a zone with which its year is 10000, and Protobuf carries anything.

// sayable says of a type what is wrong with a value of it; empty if nothing is.
var sayable = map[reflect.Type]func(value any) string{
	reflect.TypeFor[metav1.Time]():      func(v any) string { return sayableYear(v.(metav1.Time).UTC().Year()) },
	reflect.TypeFor[metav1.MicroTime](): func(v any) string { return sayableYear(v.(metav1.MicroTime).UTC().Year()) },
	reflect.TypeFor[intstr.IntOrString](): func(v any) string {
		if t := v.(intstr.IntOrString).Type; t != intstr.Int && t != intstr.String {
			return "must be a number or a text"
		}
		return ""
	},
	reflect.TypeFor[metav1.FieldsV1]():      func(v any) string { fields := v.(metav1.FieldsV1); return sayableJSON(fields.GetRawBytes()) },
	reflect.TypeFor[runtime.RawExtension](): func(v any) string { return sayableJSON(v.(runtime.RawExtension).Raw) },
}

func sayableYear(year int) string {
	if year < 0 || year > 9999 {
		return "must be in the years from 0 to 9999 (UTC)"
	}
	return ""
}

func sayableJSON(raw []byte) string {
	if len(raw) > 0 && !json.Valid(raw) {
		return "must be JSON"
	}
	return ""
}

// unsayable returns the first value within v that could not be encoded.
func unsayable(v reflect.Value, path string) *field.Error {
	if !leadsToUnsayable(v.Type()) {
		return nil
	}
	if check := sayable[v.Type()]; check != nil {
		if wrong := check(v.Interface()); wrong != "" {
			return field.Invalid(field.NewPath(strings.TrimPrefix(path, ".")), field.OmitValueType{}, wrong)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return unsayable(v.Elem(), path)
		}
	case reflect.Struct:
		for _, i := range fieldsToUnsayable(v.Type()) {
			if err := unsayable(v.Field(i), path+jsonName(v.Type().Field(i))); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := unsayable(v.Index(i), at(path, i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			if err := unsayable(each.Value(), path); err != nil {
				return err
			}
		}
	}
	return nil
}

// unsayableTypes and unsayableFields remember, by type, whether it leads to such values, and by which fields.
var unsayableTypes, unsayableFields sync.Map

func leadsToUnsayable(t reflect.Type) bool {
	if known, ok := unsayableTypes.Load(t); ok {
		return known.(bool)
	}
	leads := findUnsayable(t, map[reflect.Type]bool{})
	unsayableTypes.Store(t, leads)
	return leads
}

func findUnsayable(t reflect.Type, within map[reflect.Type]bool) bool {
	if sayable[t] != nil {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return findUnsayable(t.Elem(), within)
	case reflect.Struct:
		if within[t] {
			return false // what else it leads to is found by its other fields
		}
		within[t] = true
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && findUnsayable(f.Type, within) {
				return true
			}
		}
	}
	return false
}

func fieldsToUnsayable(t reflect.Type) []int {
	if known, ok := unsayableFields.Load(t); ok {
		return known.([]int)
	}
	var at []int
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && leadsToUnsayable(f.Type) {
			at = append(at, i)
		}
	}
	unsayableFields.Store(t, at)
	return at
}
