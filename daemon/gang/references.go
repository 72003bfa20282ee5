package gang

import (
	"maps"
	"slices"
)

// references holds which objects name which other object.
type references struct {
	names   map[string]string
	namedBy map[string]map[string]struct{}
}

func newReferences() references {
	return references{map[string]string{}, map[string]map[string]struct{}{}}
}

func (r references) set(key, named string) {
	if old, ok := r.names[key]; ok {
		if delete(r.namedBy[old], key); len(r.namedBy[old]) == 0 {
			delete(r.namedBy, old)
		}
		delete(r.names, key)
	}
	if named == "" {
		return
	}
	r.names[key] = named
	if r.namedBy[named] == nil {
		r.namedBy[named] = map[string]struct{}{}
	}
	r.namedBy[named][key] = struct{}{}
}

// by returns the objects that name this one.
func (r references) by(named string) []string { return slices.Sorted(maps.Keys(r.namedBy[named])) }
