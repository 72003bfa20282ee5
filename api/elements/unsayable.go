package elements

import (
	"encoding/json"
	"reflect"
	"strings"

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
	if !unsayables.leads(v.Type()) {
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
		for _, i := range unsayables.in(v.Type()) {
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

// unsayables are the values that may be such.
var unsayables = &table{is: func(t reflect.Type) (is, ends bool) { return sayable[t] != nil, false }}
