package scheme

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
)

// Fields are some fields of a message by their numbers in generated.proto: nil for a whole field, else some of its own.
type Fields map[protowire.Number]Fields

// DecodePart is Decode for some fields only: the others are passed over, and stay what they are in an empty object. So a
// hundred thousand objects can be looked at when little of each is of interest.
func DecodePart(data []byte, fields Fields, into runtime.Object) error {
	part, err := fields.of(nil, data)
	if err != nil {
		return err
	}
	return Decode(part, into)
}

var errCut = errors.New("decode: the message is cut short")

// of appends the fields of a message.
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
