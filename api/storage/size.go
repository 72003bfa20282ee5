package storage

import (
	"context"
	"reflect"
	goruntime "runtime"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/jobd/jobd/store"
)

// weighing are the turns of objects that are decoded to see how large they are, before anything is counted for them.
var weighing = make(chan struct{}, goruntime.GOMAXPROCS(0))

// weigh returns what an object that is stored takes in memory for a request. Of a light one it is what is stored.
func (s *Storage) weigh(ctx context.Context, o store.Object) int {
	if len(o.Value) <= lightObject || !isRequest(ctx) {
		return len(o.Value)
	}
	weighing <- struct{}{}
	defer func() { <-weighing }()
	obj, _, err := s.codec.Decode(o.Value, nil, s.newFunc())
	if err != nil {
		return len(o.Value) // who reads it is told
	}
	return sizeOf(obj, len(o.Value))
}

// sizeOf estimates what an object refers to in memory that has so many bytes as it is stored. Those are all that its texts can take; but
// an element of a list may be two bytes there and hundreds here, whatever is in it.
func sizeOf(obj runtime.Object, stored int) int {
	v := reflect.ValueOf(obj).Elem()
	if beyond := sizerOf(v.Type()); beyond != nil {
		stored += beyond(v)
	}
	return stored
}

// A sizer returns what a value takes beyond itself, without texts.
type sizer func(reflect.Value) int

var sizers sync.Map // by reflect.Type

// sizerOf returns the sizer of a type, nil if its values take nothing beyond themselves.
func sizerOf(t reflect.Type) sizer {
	if known, ok := sizers.Load(t); ok {
		return known.(sizer)
	}
	made := newSizer(t, nil)
	sizers.Store(t, made)
	return made
}

// newSizer makes a sizer of a type that is in values of others.
func newSizer(t reflect.Type, within []reflect.Type) sizer {
	for _, outer := range within {
		if outer == t {
			return func(v reflect.Value) int { return sizerOf(t)(v) }
		}
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Pointer:
		return sizerOfPointers(newSizer(t.Elem(), within), int(t.Elem().Size()))
	case reflect.Slice:
		return sizerOfSlices(newSizer(t.Elem(), within), int(t.Elem().Size()))
	case reflect.Map:
		return sizerOfMaps(newSizer(t.Elem(), within), int(t.Key().Size()+t.Elem().Size()))
	case reflect.Struct:
		return sizerOfStructs(t, within)
	}
	return nil
}

func sizerOfPointers(elem sizer, size int) sizer {
	return func(v reflect.Value) int {
		switch {
		case v.IsNil():
			return 0
		case elem == nil:
			return size
		}
		return size + elem(v.Elem())
	}
}

func sizerOfSlices(elem sizer, size int) sizer {
	return func(v reflect.Value) int {
		total := v.Cap() * size
		if elem != nil {
			for i := range v.Len() {
				total += elem(v.Index(i))
			}
		}
		return total
	}
}

// mapFactor is how much memory a map takes beside its keys and values, which have room to grow.
const mapFactor = 2

func sizerOfMaps(elem sizer, size int) sizer {
	return func(v reflect.Value) int {
		total := v.Len() * size * mapFactor
		if elem != nil {
			for all := v.MapRange(); all.Next(); {
				total += elem(all.Value())
			}
		}
		return total
	}
}

// sizerOfStructs leaves out fields that are not exported: what they point to may be shared, as the time zones of times are.
func sizerOfStructs(t reflect.Type, within []reflect.Type) sizer {
	type part struct {
		at int
		of sizer
	}
	var parts []part
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		if of := newSizer(t.Field(i).Type, within); of != nil {
			parts = append(parts, part{i, of})
		}
	}
	if parts == nil {
		return nil
	}
	return func(v reflect.Value) (total int) {
		for _, p := range parts {
			total += p.of(v.Field(p.at))
		}
		return total
	}
}
