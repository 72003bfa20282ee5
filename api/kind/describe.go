package kind

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Description is a group's description of a kind, made of functions of its Go type. A nil function means that there is
// no such rule. The fields mean what those of Kind do.
type Description[T runtime.Object] struct {
	GroupVersion           schema.GroupVersion
	Name                   string
	ShortNames, Categories []string
	Namespaced             bool

	Default func(T)
	Fields  map[string]func(T) string
	// Table is what kubectl prints. Nil: name and age.
	Table Table[T]

	Rules        Rules[T]
	Subresources map[string]Rules[T]

	AlsoIn []Alias
}

// Object is the pointer to a Go type of the API.
type Object[T any] interface {
	*T
	runtime.Object
}

// Of returns a Kind for the type T, of which L is the list. The resource is the plural of the kind's name.
func Of[T, L any, P Object[T], Q Object[L]](d Description[P]) *Kind {
	plural, _ := meta.UnsafeGuessKindToResource(d.GroupVersion.WithKind(d.Name))
	k := &Kind{
		GroupVersion: d.GroupVersion,
		Name:         d.Name, Resource: plural.Resource, Singular: strings.ToLower(d.Name),
		ShortNames: d.ShortNames, Categories: d.Categories,
		Namespaced: d.Namespaced,
		New:        func() runtime.Object { return P(new(T)) },
		NewList:    func() runtime.Object { return Q(new(L)) },
		Strategy:   d.Rules,
		AlsoIn:     d.AlsoIn,
	}
	if d.Default != nil {
		k.Default = func(obj runtime.Object) { d.Default(obj.(P)) }
	}
	if d.Table != nil {
		k.Columns = d.Table.Definitions()
		k.Cells = func(obj runtime.Object, now time.Time) []any { return d.Table.Cells(obj.(P), now) }
	}
	if len(d.Fields) > 0 {
		k.Fields = make(map[string]func(runtime.Object) string, len(d.Fields))
	}
	for name, get := range d.Fields {
		k.Fields[name] = func(obj runtime.Object) string { return get(obj.(P)) }
	}
	if len(d.Subresources) > 0 {
		k.Subresources = make(map[string]Strategy, len(d.Subresources))
	}
	for name, rules := range d.Subresources {
		k.Subresources[name] = rules
	}
	return k
}
