package scheme

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kinds of groups that extend a cluster have no protobuf form. What is stored of them begins as every other object does, with the
// metadata as the message 1, so that whoever reads no more of an object finds it; the rest is JSON.
const (
	extendedMetadata = protowire.Number(1)
	extendedRest     = protowire.Number(2)
)

var errNotExtended = errors.New("it has no protobuf form and no metadata")

// encodeExtended returns the bytes that are stored for an object without a protobuf form.
func encodeExtended(obj runtime.Object) ([]byte, error) {
	if _, err := metadataOf(obj); err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	data, err := json.Marshal(withoutMetadata(obj))
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return joinExtended(obj, data)
}

// joinExtended returns the bytes that are stored for an object: its metadata, and the rest in parts.
func joinExtended(obj runtime.Object, rest ...[]byte) ([]byte, error) {
	meta, err := metadataOf(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	metadata, err := meta.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	size := 0
	for _, part := range rest {
		size += len(part)
	}
	const tags = 16 // with the lengths
	out := make([]byte, 0, len(metadata)+size+tags)
	out = protowire.AppendBytes(protowire.AppendTag(out, extendedMetadata, protowire.BytesType), metadata)
	out = protowire.AppendVarint(protowire.AppendTag(out, extendedRest, protowire.BytesType), uint64(size))
	for _, part := range rest {
		out = append(out, part...)
	}
	return out, nil
}

// EncodeStatus is Encode for an object of which nothing but the metadata and the status differs from what is stored. Of one without a protobuf
// form it leaves the spec as it is there, which may be large.
func EncodeStatus(stored []byte, obj runtime.Object) ([]byte, error) {
	if _, ok := obj.(wire); ok {
		return Encode(obj)
	}
	_, rest, err := partsOf(stored)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	from, to, ok := member(rest, "status")
	status := reflect.ValueOf(obj).Elem().FieldByName("Status")
	if !ok || !status.IsValid() {
		return Encode(obj)
	}
	said, err := json.Marshal(status.Interface())
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return joinExtended(obj, rest[:from], said, rest[to:])
}

// member returns where the value of a member of a JSON object stands, which json.Marshal has written; false if it has none of that name.
func member(object []byte, name string) (from, to int, ok bool) {
	key := []byte(`"` + name + `":`)
	depth := 0
	for i := 0; i < len(object); i++ {
		switch object[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; ok && depth <= 1 {
				return from, i + depth, true
			}
		case ',':
			if ok && depth == 1 {
				return from, i, true
			}
		case '"':
			if depth == 1 && !ok && bytes.HasPrefix(object[i:], key) {
				from, ok = i+len(key), true
				i = from - 1
				continue
			}
			for i++; i < len(object) && object[i] != '"'; i++ {
				if object[i] == '\\' {
					i++
				}
			}
		}
	}
	return 0, 0, false
}

// metadataOf returns the metadata of an object.
func metadataOf(obj runtime.Object) (*metav1.ObjectMeta, error) {
	if accessor, ok := obj.(metav1.ObjectMetaAccessor); ok {
		if meta, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return meta, nil
		}
	}
	return nil, errNotExtended
}

// withoutMetadata returns a shallow copy of an object without what is not stored beside its metadata.
func withoutMetadata(obj runtime.Object) any {
	rest := reflect.New(reflect.TypeOf(obj).Elem())
	rest.Elem().Set(reflect.ValueOf(obj).Elem())
	for _, field := range []string{"TypeMeta", "ObjectMeta"} {
		rest.Elem().FieldByName(field).SetZero()
	}
	return rest.Interface()
}

// decodeExtended reads what encodeExtended has written into an empty object. Of data without a rest, as DecodePart makes it, it reads
// the metadata.
func decodeExtended(data []byte, into runtime.Object) error {
	fail := func(err error) error { return fmt.Errorf("decode %T: %w", into, err) }
	meta, err := metadataOf(into)
	if err != nil {
		return fail(err)
	}
	metadata, rest, err := partsOf(data)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		if err := json.Unmarshal(rest, into); err != nil {
			return fail(err)
		}
	}
	*meta = metav1.ObjectMeta{}
	if err := meta.Unmarshal(metadata); err != nil {
		return fail(err)
	}
	return nil
}

// partsOf returns what encodeExtended has put together.
func partsOf(data []byte) (metadata, rest []byte, err error) {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 || kind != protowire.BytesType {
			return nil, nil, errCut
		}
		value, m := protowire.ConsumeBytes(data[n:])
		if m < 0 {
			return nil, nil, errCut
		}
		switch number {
		case extendedMetadata:
			metadata = value
		case extendedRest:
			rest = value
		}
		data = data[n+m:]
	}
	return metadata, rest, nil
}
