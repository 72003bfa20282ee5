package scheme

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
)

// Fields selects fields of a message by their numbers in generated.proto: nil selects a whole field, else some fields
// of it.
type Fields map[protowire.Number]Fields

// FieldsOf returns the fields of a kind at the given JSON paths, such as status.phase. It panics when there is no such
// field: the paths are those of the program itself.
func FieldsOf[Kind any](paths ...string) Fields {
	out := Fields{}
	for _, path := range paths {
		fields, t := out, reflect.TypeFor[Kind]()
		names := strings.Split(path, ".")
		for i, name := range names {
			var number protowire.Number
			if number, t = fieldNamed(t, name); number == 0 {
				panic(fmt.Sprintf("%s has no field %s", reflect.TypeFor[Kind](), path))
			}
			if i == len(names)-1 {
				fields[number] = nil
			} else if fields[number] == nil {
				fields[number] = Fields{}
			}
			fields = fields[number]
		}
	}
	return out
}

// fieldNamed finds a field by its name in JSON and returns its number in generated.proto, 0 where there is none, and
// its type. Both stand in the tags of the types of Kubernetes.
func fieldNamed(t reflect.Type, name string) (protowire.Number, reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return 0, t
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if json, _, _ := strings.Cut(f.Tag.Get("json"), ","); json != name {
			continue
		}
		// such as bytes,9,opt,name=deletionTimestamp
		if tag := strings.Split(f.Tag.Get("protobuf"), ","); len(tag) > 1 {
			n, _ := strconv.Atoi(tag[1])
			return protowire.Number(n), f.Type
		}
	}
	return 0, t
}

// DecodePart is Decode for some fields only: the others are skipped and keep their zero values. This makes it cheap to
// scan a hundred thousand objects when only a little of each is needed.
func DecodePart(data []byte, fields Fields, into runtime.Object) error {
	part, err := fields.of(nil, data)
	if err != nil {
		return err
	}
	return Decode(part, into)
}

var errCut = errors.New("decode: the message is cut short")

// of appends the selected fields of a message to part.
func (f Fields) of(part, data []byte) ([]byte, error) {
	for len(data) > 0 {
		number, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return nil, errCut
		}
		size := protowire.ConsumeFieldValue(number, kind, data[tag:])
		if size < 0 {
			return nil, errCut
		}
		field, some := f[number]
		switch {
		case !some:
		case field == nil || kind != protowire.BytesType:
			part = append(part, data[:tag+size]...)
		default:
			inner, _ := protowire.ConsumeBytes(data[tag:])
			inner, err := field.of(nil, inner)
			if err != nil {
				return nil, err
			}
			part = protowire.AppendBytes(append(part, data[:tag]...), inner)
		}
		data = data[tag+size:]
	}
	return part, nil
}
