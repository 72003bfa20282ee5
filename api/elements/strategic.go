package elements

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// StrategicPatch is a strategic merge patch with its lists. The library looks up each element of a list among all others, of the patch
// and of the object, and sorts by looking each up.
type StrategicPatch struct {
	body  []byte
	lists []named
}

// named says how many elements a list of a name has.
type named struct {
	name  string
	count int
}

// orders are what the name of a list begins with that says something of another one.
var orders = []string{"$setElementOrder/", "$deleteFromPrimitiveList/"}

// listName returns the name of the list that a key of a patch is about.
func listName(key string) string {
	for _, order := range orders {
		key = strings.TrimPrefix(key, order)
	}
	return key
}

// StrategicPatchOf returns the patch in a body.
func StrategicPatchOf(body []byte) StrategicPatch {
	s := scan{body: body, noting: true}
	s.run() // which does not refuse what InJSON did not
	return StrategicPatch{body, s.lists}
}

// note keeps the innermost list, which ends here. One without elements has the object's sorted too.
func (s *scan) note() {
	if f := s.top(); s.noting && f.list && len(s.frames) > 1 {
		s.lists = append(s.lists, named{listName(keyText(s.frames[len(s.frames)-2].key)), f.count})
	}
}

// Comparisons returns how many comparisons are made when the patch is applied to an object, about: for each list of the patch as
// many as the square of what it and the object's have together. Counting ends at more than most, and where there are few at the
// most, the body is not decoded and the answer may be too large, yet not more than few.
func (p StrategicPatch) Comparisons(obj runtime.Object, few, most int) int {
	if n := p.atMost(obj); n <= few {
		return n
	}
	var patch map[string]any
	if json.Unmarshal(p.body, &patch) != nil {
		return 0 // the library says so in its words
	}
	c := comparisons{most: most}
	c.object(patch, reflect.ValueOf(obj))
	return c.n
}

// atMost returns how many there are if no element of the patch is one that the object has, in its longest list of that name.
func (p StrategicPatch) atMost(obj runtime.Object) (n int) {
	if len(p.lists) == 0 {
		return 0
	}
	stored := map[string]int{}
	longest(reflect.ValueOf(obj), "", stored)
	for _, list := range p.lists {
		all := list.count + stored[list.name]
		n += all * all
	}
	return n
}

// longest finds how long the longest list of each name is.
func longest(v reflect.Value, name string, found map[string]int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && lists.leads(v.Type().Elem()) {
			longest(v.Elem(), name, found)
		}
	case reflect.Struct:
		for _, i := range lists.in(v.Type()) {
			longest(v.Field(i), strings.TrimPrefix(jsonName(v.Type().Field(i)), "."), found)
		}
	case reflect.Slice:
		found[name] = max(found[name], v.Len())
		if lists.leads(v.Type().Elem()) {
			for i := range v.Len() {
				longest(v.Index(i), name, found)
			}
		}
	}
}

// comparisons counts them in a patch and the object that it is for, until there are too many.
type comparisons struct{ n, most int }

// object counts in a part of the patch that is an object.
func (c *comparisons) object(patch map[string]any, stored reflect.Value) {
	if stored = pointedTo(stored); stored.Kind() != reflect.Struct {
		return
	}
	for key, value := range patch {
		if c.n > c.most {
			return
		}
		field, of, ok := fieldOf(stored, listName(key))
		if !ok {
			continue
		}
		switch value := value.(type) {
		case map[string]any:
			c.object(value, field)
		case []any:
			if strings.Contains(of.Tag.Get("patchStrategy"), "merge") && field.Kind() == reflect.Slice { // else it is replaced
				c.list(value, field, of.Tag.Get("patchMergeKey"))
			}
		}
	}
}

// list counts for a list that is merged, whose elements are told apart by the value of a key, or are texts.
func (c *comparisons) list(patch []any, stored reflect.Value, key string) {
	there := make(map[string]reflect.Value, stored.Len())
	for i := range stored.Len() {
		element := pointedTo(stored.Index(i))
		identity := element
		if key != "" {
			identity, _, _ = fieldOf(element, key)
		}
		if identity = pointedTo(identity); identity.IsValid() {
			there[fmt.Sprint(identity)] = element
		}
	}
	all := stored.Len()
	for _, element := range patch {
		identity := element
		asMap, _ := element.(map[string]any)
		if key != "" {
			identity = asMap[key]
		}
		if _, ok := there[fmt.Sprint(identity)]; !ok {
			all++
		}
	}
	if c.n += all * all; asMaps(stored) {
		for _, element := range patch {
			if asMap, ok := element.(map[string]any); ok && c.n <= c.most {
				if old, ok := there[fmt.Sprint(asMap[key])]; ok {
					c.object(asMap, old)
				} else {
					c.object(asMap, reflect.Zero(bare(stored.Type().Elem())))
				}
			}
		}
	}
}

// asMaps reports whether the elements of a list are objects.
func asMaps(list reflect.Value) bool { return bare(list.Type().Elem()).Kind() == reflect.Struct }

// fieldOf returns the field of a struct with a name in JSON, and what its type says of it.
func fieldOf(v reflect.Value, name string) (reflect.Value, reflect.StructField, bool) {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}, reflect.StructField{}, false
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch of := jsonName(f); {
		case of == "."+name && f.IsExported():
			return v.Field(i), f, true
		case of == "" && f.Anonymous && f.IsExported():
			if found, f, ok := fieldOf(pointedTo(v.Field(i)), name); ok {
				return found, f, true
			}
		}
	}
	return reflect.Value{}, reflect.StructField{}, false
}

// pointedTo returns what a value points to, and for nothing an empty one.
func pointedTo(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v = reflect.Zero(v.Type().Elem())
		} else {
			v = v.Elem()
		}
	}
	return v
}
