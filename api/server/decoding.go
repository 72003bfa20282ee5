package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/elements"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/internal/quantity"
)

// guarded are the codecs of the API, whose decoders refuse what would take hours to decode, and what is decoded for nothing. What
// they decode is the body of a request, or what a JSON patch or a merge patch has made of an object: that can move a text to where it
// is a quantity.
type guarded struct {
	runtime.NegotiatedSerializer
	types []runtime.SerializerInfo
}

func guard(codecs runtime.NegotiatedSerializer) guarded {
	g := guarded{codecs, slices.Clone(codecs.SupportedMediaTypes())}
	for i := range g.types {
		info := &g.types[i]
		info.Serializer, info.StrictSerializer = guardOne(info.Serializer, info.MediaType), guardOne(info.StrictSerializer, info.MediaType)
	}
	return g
}

func (g guarded) SupportedMediaTypes() []runtime.SerializerInfo { return g.types }

// guardedSerializer is one of them.
type guardedSerializer struct {
	runtime.Serializer
	mediaType string
}

// allocating is one that can encode with memory of its caller.
type allocating struct {
	guardedSerializer
	encoder runtime.EncoderWithAllocator
}

func (a allocating) EncodeWithAllocator(obj runtime.Object, w io.Writer, memory runtime.MemoryAllocator) error {
	return a.encoder.EncodeWithAllocator(obj, w, memory)
}

func guardOne(s runtime.Serializer, mediaType string) runtime.Serializer {
	if s == nil {
		return nil
	}
	g := guardedSerializer{s, mediaType}
	if encoder, ok := s.(runtime.EncoderWithAllocator); ok {
		return allocating{g, encoder}
	}
	return g
}

func (g guardedSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if kind, err := g.check(data, defaults, into); err != nil {
		return nil, kind, err
	}
	obj, kind, err := g.Serializer.Decode(data, defaults, into)
	return obj, kind, shortened(err)
}

// maxSaid is how much a client is told of one error of strict decoding, in bytes: of YAML, the errors of all lines are one.
const maxSaid = 8 << 10

// shortened bounds what strict decoding says of an object that has very many fields twice, or that nobody knows.
func shortened(err error) error {
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return err
	}
	all := strict.Errors()
	said := slices.Clone(all[:min(len(all), maxErrors)])
	for i, e := range said {
		if text := e.Error(); len(text) > maxSaid {
			said[i] = fmt.Errorf("%s ... and so on", strings.ToValidUTF8(text[:maxSaid], ""))
		}
	}
	return runtime.NewStrictDecodingError(said)
}

// check returns why data must not be decoded, and of which kind it is.
func (g guardedSerializer) check(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (*schema.GroupVersionKind, error) {
	if g.mediaType == runtime.ContentTypeYAML && !json.Valid(data) {
		converted, err := yaml.YAMLToJSON(data)
		if err != nil {
			return nil, nil // the decoder says so in its words
		}
		data = converted
	}
	suspect := quantity.Suspect(data)
	if len(data) < smallBody && !suspect {
		return nil, nil
	}
	actual := schema.GroupVersionKind{}
	if g.mediaType == runtime.ContentTypeProtobuf {
		actual = elements.KindInProtobuf(data)
	} else if said, err := runtimejson.DefaultMetaFactory.Interpret(data); err == nil {
		actual = *said
	} else {
		return nil, nil
	}
	if into != nil {
		if wanted, _, err := scheme.Scheme.ObjectKinds(into); err == nil {
			if actual.Kind != "" && actual.Kind != wanted[0].Kind {
				return &actual, apierrors.NewBadRequest(fmt.Sprintf("the data is a %s and not a %s", actual.Kind, wanted[0].Kind))
			}
			defaults = cmp.Or(defaults, &wanted[0])
		}
	}
	of := typeOf(actual, defaults)
	if of == nil {
		return nil, nil // the decoder does not know it either
	}
	var found *field.Error
	if g.mediaType == runtime.ContentTypeProtobuf {
		if found = elements.InProtobuf(data, of); found == nil {
			found = elements.QuantitiesInProtobuf(data, of)
		}
	} else {
		found = elements.QuantitiesInJSON(data, of)
	}
	if found == nil {
		return nil, nil
	}
	return &actual, apierrors.NewBadRequest(found.Error())
}

// typeOf returns the type that an object is decoded into that says it is of a kind, where it may say less than all; nil if there is
// none.
func typeOf(said schema.GroupVersionKind, defaults *schema.GroupVersionKind) reflect.Type {
	if defaults != nil {
		said.Kind = cmp.Or(said.Kind, defaults.Kind)
		if said.Group == "" && said.Version == "" {
			said.Group, said.Version = defaults.Group, defaults.Version
		}
		if said.Group == defaults.Group {
			said.Version = cmp.Or(said.Version, defaults.Version)
		}
	}
	obj, err := scheme.Scheme.New(said)
	if err != nil {
		return nil
	}
	return reflect.TypeOf(obj).Elem()
}
