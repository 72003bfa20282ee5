package elements

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var protobufPrefix = []byte("k8s\x00")

// InProtobuf looks at a body in protobuf, whose fields say what they are only together with the type of the object, which
// create makes. What cannot be read is left to the decoder.
func InProtobuf(body []byte, create runtime.ObjectCreater) *field.Error {
	if len(body) < 2*Most { // an element has two bytes at least
		return nil
	}
	body, ok := bytes.CutPrefix(body, protobufPrefix)
	if !ok {
		return nil
	}
	var kind, raw []byte
	for number, value := range messages(body) {
		switch number {
		case 1:
			kind = value
		case 2:
			raw = value
		}
	}
	var apiVersion, name string
	for number, value := range messages(kind) {
		switch number {
		case 1:
			apiVersion = string(value)
		case 2:
			name = string(value)
		}
	}
	obj, err := create.New(schema.FromAPIVersionAndKind(apiVersion, name))
	if err != nil {
		return nil
	}
	var t tally
	t.message(reflect.TypeOf(obj).Elem(), raw, "")
	return t.err
}

// messages calls yield with the fields of a message that have a length: messages, texts and bytes.
func messages(b []byte) func(yield func(protowire.Number, []byte) bool) {
	return func(yield func(protowire.Number, []byte) bool) {
		for len(b) > 0 {
			number, kind, n := protowire.ConsumeTag(b)
			if n < 0 {
				return
			}
			b = b[n:]
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return
			}
			if kind == protowire.BytesType {
				if value, m := protowire.ConsumeBytes(b); m < 0 || !yield(number, value) {
					return
				}
			}
			b = b[n:]
		}
	}
}

// message counts in a message of a type.
func (t *tally) message(of reflect.Type, b []byte, path string) {
	fields := fieldsOf(of)
	if len(fields) == 0 {
		return
	}
	counts := map[protowire.Number]int{}
	for number, value := range messages(b) {
		f, ok := fields[number]
		if !ok {
			continue
		}
		below := path + f.name
		if f.list {
			counts[number]++
			if !t.list(counts[number]) {
				n := 0
				for other := range messages(b) {
					if other == number {
						n++
					}
				}
				t.err = t.exceeded(below, n)
				return
			}
			below = at(below, counts[number]-1)
		}
		if t.message(f.of, value, below); t.err != nil {
			return
		}
	}
}

// wireField is a field of a message that is a message, or a list of them.
type wireField struct {
	name string // with the dot before it; empty if its fields are those of the whole in JSON
	list bool
	of   reflect.Type
}

var wireFields sync.Map // of reflect.Type

// fieldsOf returns the fields of a type by their numbers.
func fieldsOf(t reflect.Type) map[protowire.Number]wireField {
	if known, ok := wireFields.Load(t); ok {
		return known.(map[protowire.Number]wireField)
	}
	fields := map[protowire.Number]wireField{}
	for i := range t.NumField() {
		f := t.Field(i)
		parts := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(parts) < 2 {
			continue
		}
		number, err := strconv.Atoi(parts[1])
		if err != nil {
			continue
		}
		w := wireField{name: jsonName(f), of: f.Type}
		if w.of.Kind() == reflect.Slice {
			w.list, w.of = true, w.of.Elem()
		}
		if w.of.Kind() == reflect.Pointer {
			w.of = w.of.Elem()
		}
		if w.of.Kind() == reflect.Struct {
			fields[protowire.Number(number)] = w
		}
	}
	wireFields.Store(t, fields)
	return fields
}

// jsonName returns a field's name in JSON with the dot before it; empty if its fields are those of the whole.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		return ""
	}
	return "." + name
}
