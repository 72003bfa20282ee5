package scheme

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

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

// buffers are for what is copied at once: a JobSet of many groups is written whenever something happens to one of them.
var buffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

var errNotExtended = errors.New("it has no protobuf form and no metadata")

// encodeExtended returns the bytes that are stored for an object without a protobuf form.
func encodeExtended(obj runtime.Object) ([]byte, error) {
	meta, rest, err := split(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	metadata, err := meta.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	buffer := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buffer)
	buffer.Reset()
	if err := json.NewEncoder(buffer).Encode(rest); err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	data := bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
	const tags = 16 // with the lengths
	out := make([]byte, 0, len(metadata)+len(data)+tags)
	out = protowire.AppendBytes(protowire.AppendTag(out, extendedMetadata, protowire.BytesType), metadata)
	return protowire.AppendBytes(protowire.AppendTag(out, extendedRest, protowire.BytesType), data), nil
}

// split returns the metadata of an object, and a shallow copy of it without what is not stored beside that.
func split(obj runtime.Object) (*metav1.ObjectMeta, any, error) {
	accessor, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return nil, nil, errNotExtended
	}
	meta, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return nil, nil, errNotExtended
	}
	rest := reflect.New(reflect.TypeOf(obj).Elem())
	rest.Elem().Set(reflect.ValueOf(obj).Elem())
	for _, field := range []string{"TypeMeta", "ObjectMeta"} {
		rest.Elem().FieldByName(field).SetZero()
	}
	return meta, rest.Interface(), nil
}

// decodeExtended reads what encodeExtended has written into an empty object. Of data without a rest, as DecodePart makes it, it reads
// the metadata.
func decodeExtended(data []byte, into runtime.Object) error {
	fail := func(err error) error { return fmt.Errorf("decode %T: %w", into, err) }
	accessor, ok := into.(metav1.ObjectMetaAccessor)
	if !ok {
		return fail(errNotExtended)
	}
	var metadata, rest []byte
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 || kind != protowire.BytesType {
			return errCut
		}
		value, m := protowire.ConsumeBytes(data[n:])
		if m < 0 {
			return errCut
		}
		switch number {
		case extendedMetadata:
			metadata = value
		case extendedRest:
			rest = value
		}
		data = data[n+m:]
	}
	if len(rest) > 0 {
		if err := json.Unmarshal(rest, into); err != nil {
			return fail(err)
		}
	}
	meta, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return fail(errNotExtended)
	}
	*meta = metav1.ObjectMeta{}
	if err := meta.Unmarshal(metadata); err != nil {
		return fail(err)
	}
	return nil
}
