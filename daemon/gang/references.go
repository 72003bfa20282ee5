package gang

import (
	"maps"
	"slices"

	"github.com/jobd/jobd/internal/multimap"
)

// references holds which objects name which other object, one at most.
type references struct {
	*multimap.TwoWay[string, string]
}

func newReferences() references { return references{multimap.NewTwoWay[string, string]()} }

func (r references) set(key, named string) {
	if named == "" {
		r.Set(key)
		return
	}
	r.Set(key, named)
}

// named returns the object that this one names; empty if it names none.
func (r references) named(key string) string {
	for _, named := range r.Values(key) {
		return named
	}
	return ""
}

// by returns the objects that name this one.
func (r references) by(named string) []string { return slices.Sorted(maps.Keys(r.Keys(named))) }
