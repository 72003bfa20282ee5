package scheme

import (
	"net/url"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// parameters registers how the options of a request are read from the parameters of its URL.
func parameters[T any](s *runtime.Scheme, read func(url.Values, *T) error) error {
	return s.AddConversionFunc((*url.Values)(nil), (*T)(nil), func(from, into any, _ conversion.Scope) error {
		return read(*from.(*url.Values), into.(*T))
	})
}
