package scheme

import (
	"encoding/json"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/jobd/jobd/internal/yamltext"
)

// WithYAML is codecs whose YAML can have any string that an object may have.
func WithYAML(codecs runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
	types := slices.Clone(codecs.SupportedMediaTypes())
	for i := range types {
		if types[i].MediaType == runtime.ContentTypeYAML {
			types[i].Serializer = yamlSerializer{types[i].Serializer}
		}
	}
	return yamlCodecs{codecs, types}
}

type yamlCodecs struct {
	runtime.NegotiatedSerializer
	types []runtime.SerializerInfo
}

func (c yamlCodecs) SupportedMediaTypes() []runtime.SerializerInfo { return c.types }

type yamlSerializer struct{ runtime.Serializer }

func (s yamlSerializer) Encode(obj runtime.Object, w io.Writer) error {
	if kept, ok := obj.(runtime.CacheableObject); ok {
		return kept.CacheEncode(s.Identifier(), encodeYAML, w)
	}
	return encodeYAML(obj, w)
}

func encodeYAML(obj runtime.Object, w io.Writer) error {
	asJSON, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	text, err := yamltext.FromJSON(asJSON)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
