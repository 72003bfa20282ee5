package elements

import (
	"reflect"
	"sync"
)

// table knows of each type whether values of it can have something in them that is looked for, and by which fields of a struct.
type table struct {
	// is reports whether a type is such itself. ends says that no look is to be taken within it.
	is func(t reflect.Type) (is, ends bool)
	// skips reports whether a field is to be left out; nil: none is.
	skips func(f reflect.StructField) bool

	leading, fields sync.Map // by type: whether it leads there, and the indexes of the fields that do
}

// leads reports whether values of a type can have something in them that is looked for.
func (of *table) leads(t reflect.Type) bool {
	if known, ok := of.leading.Load(t); ok {
		return known.(bool)
	}
	leads := of.find(t, map[reflect.Type]bool{})
	of.leading.Store(t, leads)
	return leads
}

func (of *table) find(t reflect.Type, within map[reflect.Type]bool) bool {
	if is, ends := of.is(t); is || ends {
		return is
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return of.find(t.Elem(), within)
	case reflect.Struct:
		if within[t] {
			return false // what else it leads to is found by its other fields
		}
		within[t] = true
		for i := range t.NumField() {
			if f := t.Field(i); of.has(f) && of.find(f.Type, within) {
				return true
			}
		}
	}
	return false
}

func (of *table) has(f reflect.StructField) bool {
	return f.IsExported() && (of.skips == nil || !of.skips(f))
}

// in returns the indexes of the fields of a struct that lead to something that is looked for.
func (of *table) in(t reflect.Type) []int {
	if known, ok := of.fields.Load(t); ok {
		return known.([]int)
	}
	var at []int
	for i := range t.NumField() {
		if f := t.Field(i); of.has(f) && of.leads(f.Type) {
			at = append(at, i)
		}
	}
	of.fields.Store(t, at)
	return at
}
