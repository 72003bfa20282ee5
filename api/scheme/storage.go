package scheme

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// wire is implemented by the generated types of k8s.io/api.
type wire interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
	Size() int
}

// Encode returns the bytes that are stored for an object: its plain protobuf. Kind and apiVersion are not in it, since
// the key implies them; the resourceVersion should have been cleared, since the store has its own.
func Encode(obj runtime.Object) ([]byte, error) {
	w, ok := obj.(wire)
	if !ok {
		return encodeExtended(obj)
	}
	data, err := w.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return data, nil
}

// Size returns how many bytes Encode would return.
func Size(obj runtime.Object) int {
	w, ok := obj.(wire)
	if !ok {
		data, _ := encodeExtended(obj) // Encode says what is wrong with it
		return len(data)
	}
	return w.Size()
}

// Decode reads what Encode wrote into an empty object of the same Go type. The data is not kept.
func Decode(data []byte, into runtime.Object) error {
	w, ok := into.(wire)
	if !ok {
		return decodeExtended(data, into)
	}
	if err := w.Unmarshal(data); err != nil {
		return fmt.Errorf("decode %T: %w", into, err)
	}
	return nil
}

// StorageCodec is Encode and Decode in the form that apiserver's storage.Interface wants. Decode needs an object
// to decode into.
var StorageCodec runtime.Codec = storageCodec{}

type storageCodec struct{}

func (storageCodec) Encode(obj runtime.Object, w io.Writer) error {
	data, err := Encode(obj)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func (storageCodec) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil {
		return nil, nil, fmt.Errorf("decode: stored bytes do not tell their kind, an object to decode into is needed")
	}
	if err := Decode(data, into); err != nil {
		return nil, nil, err
	}
	return into, defaults, nil
}

func (storageCodec) Identifier() runtime.Identifier { return "jobd-storage" }
