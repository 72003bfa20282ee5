package elements

import (
	"bytes"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var protobufPrefix = []byte("k8s\x00")

// InProtobuf looks at a body in protobuf, whose fields say what they are only together with the type of the object. What cannot be
// read is left to the decoder.
func InProtobuf(body []byte, of reflect.Type) *field.Error {
	if len(body) < 2*Most { // an element has two bytes at least
		return nil
	}
	_, raw := envelope(body)
	var t tally
	t.message(of, raw, "")
	return t.err
}

// KindInProtobuf returns the kind that a body in protobuf says it is; it may say nothing.
func KindInProtobuf(body []byte) schema.GroupVersionKind {
	kind, _ := envelope(body)
	return kind
}

// envelope returns what a body has, and what it says of that.
func envelope(body []byte) (gvk schema.GroupVersionKind, raw []byte) {
	body, ok := bytes.CutPrefix(body, protobufPrefix)
	if !ok {
		return gvk, nil
	}
	var apiVersion, name string
	for number, value := range messages(body) {
		switch number {
		case 1:
			for number, value := range messages(value) {
				switch number {
				case 1:
					apiVersion = string(value)
				case 2:
					name = string(value)
				}
			}
		case 2:
			raw = value
		}
	}
	return schema.FromAPIVersionAndKind(apiVersion, name), raw
}

// messages calls yield with the fields of a message that have a length: messages, texts and bytes.
func messages(b []byte) iter.Seq2[protowire.Number, []byte] {
	return func(yield func(protowire.Number, []byte) bool) {
		for f := range parts(b) {
			if f.kind == protowire.BytesType && !yield(f.number, f.value) {
				return
			}
		}
	}
}

// part is a field of a message.
type part struct {
	number protowire.Number
	kind   protowire.Type
	value  []byte // of what has a length
}

// parts calls yield with all fields of a message.
func parts(b []byte) iter.Seq[part] {
	return func(yield func(part) bool) {
		for len(b) > 0 {
			number, kind, n := protowire.ConsumeTag(b)
			if n < 0 {
				return
			}
			b = b[n:]
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return
			}
			p := part{number: number, kind: kind}
			if kind == protowire.BytesType {
				var m int
				if p.value, m = protowire.ConsumeBytes(b); m < 0 {
					return
				}
			}
			if !yield(p) {
				return
			}
			b = b[n:]
		}
	}
}

// message counts in a message of a type.
func (t *tally) message(of reflect.Type, b []byte, path string) {
	if of == managedType {
		for number, value := range messages(b) {
			if t.managed(value, path); number != 1 || t.err != nil {
				return
			}
		}
		return
	}
	fields := fieldsOf(of)
	if len(fields) == 0 {
		return
	}
	counts := map[protowire.Number]int{}
	for p := range parts(b) {
		f, ok := fields[p.number]
		if !ok {
			continue
		}
		below, message := path+f.name, f.of.Kind() == reflect.Struct
		if f.list || f.entries {
			counts[p.number]++
			count := counts[p.number]
			switch {
			case f.entries && !t.keyOf(count):
				t.err = t.exceededKeys(below, all(b, p.number))
			case f.list && message && !t.list(count), f.list && !message && !t.scalarOf(count):
				t.err = t.exceeded(below, all(b, p.number))
			}
			if t.err != nil {
				return
			}
			below = at(below, count-1)
		}
		if !message || f.entries {
			continue
		}
		if t.message(f.of, p.value, below); t.err != nil {
			return
		}
	}
}

// all returns how often there is a field in a message.
func all(b []byte, number protowire.Number) (n int) {
	for p := range parts(b) {
		if p.number == number {
			n++
		}
	}
	return n
}

// wireField is a field of a message that is a message, a list or a map.
type wireField struct {
	name    string // with the dot before it; empty if its fields are those of the whole in JSON
	list    bool
	entries bool // it is a map: of a key, 1, and a value, 2
	of      reflect.Type
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
		switch {
		case w.of.Kind() == reflect.Map:
			w.entries, w.of = true, w.of.Elem()
		case isList(w.of):
			w.list, w.of = !manyTexts[strings.TrimPrefix(w.name, ".")], w.of.Elem()
		}
		w.of = bare(w.of)
		if w.list || w.entries || w.of.Kind() == reflect.Struct {
			fields[protowire.Number(number)] = w
		}
	}
	wireFields.Store(t, fields)
	return fields
}

// isList reports whether a type is a list, and not bytes.
func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8
}

// jsonName returns a field's name in JSON with the dot before it; empty if its fields are those of the whole.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		return ""
	}
	return "." + name
}
