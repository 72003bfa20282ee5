package elements

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/internal/quantity"
)

var quantityType = reflect.TypeFor[resource.Quantity]()

// QuantitiesInJSON looks in a body for quantities that would keep its decoder busy for hours. of is the type that is decoded,
// or that a patch is for. It says which texts and numbers become quantities; all others may be anything. What is no JSON is
// left to the decoder.
func QuantitiesInJSON(body []byte, of reflect.Type) *field.Error {
	if !quantity.Suspect(body) {
		return nil
	}
	s := scan{body: body, types: []reflect.Type{of}}
	return s.run()
}

// value looks at a text or a number, which ends before end, and has no more than the innermost object or list is typed for.
func (s *scan) value(end int) *field.Error {
	if s.typeHere() != quantityType {
		return nil
	}
	raw := s.body[s.at:min(end, len(s.body))]
	if raw[0] == '"' {
		// A patch is decoded before its texts are quantities. What does not end is no JSON.
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil
		}
		raw = []byte(strings.TrimSpace(text))
	}
	if err := quantity.Check(raw); err != nil {
		return tooLarge(pathOf(s.frames), raw, err)
	}
	return nil
}

// typeHere returns the type of the next value, nil if it is of no interest.
func (s *scan) typeHere() reflect.Type {
	of := s.types[len(s.types)-1]
	top := s.top()
	if of == nil || top == nil {
		return of
	}
	switch of.Kind() {
	case reflect.Slice:
		if top.list {
			return bare(of.Elem())
		}
	case reflect.Map:
		if !top.list {
			return bare(of.Elem())
		}
	case reflect.Struct:
		if !top.list {
			return jsonFields(of)[keyText(top.key)]
		}
	}
	return nil
}

// keyText returns the key of an object that stands between quotes.
func keyText(raw []byte) string {
	for _, c := range raw {
		if c == '\\' {
			var text string
			if json.Unmarshal([]byte(`"`+string(raw)+`"`), &text) == nil {
				return text
			}
			break
		}
	}
	return string(raw)
}

func tooLarge(path string, text []byte, err error) *field.Error {
	return field.Invalid(field.NewPath(strings.TrimPrefix(path, ".")), string(text[:min(len(text), quantity.MaxLength)]), err.Error())
}

func bare(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

var jsonFieldTypes sync.Map // of reflect.Type

// jsonFields returns the types of the fields of a struct by their names in JSON.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	if known, ok := jsonFieldTypes.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch of := bare(f.Type); {
		case name == "" && of.Kind() == reflect.Struct && of != t: // its fields are those of the whole
			for name, of := range jsonFields(of) {
				fields[name] = of
			}
		case name != "" && name != "-":
			fields[name] = of
		}
	}
	jsonFieldTypes.Store(t, fields)
	return fields
}

// QuantitiesInProtobuf does the same for a body in protobuf.
func QuantitiesInProtobuf(body []byte, of reflect.Type) *field.Error {
	if !quantity.Suspect(body) {
		return nil
	}
	_, raw := envelope(body)
	return quantitiesIn(of, raw, "")
}

func quantitiesIn(of reflect.Type, b []byte, path string) *field.Error {
	if of == quantityType {
		for number, value := range messages(b) {
			if err := quantity.Check(value); number == 1 && err != nil {
				return tooLarge(path, value, err)
			}
		}
		return nil
	}
	fields := fieldsOf(of)
	counts := map[protowire.Number]int{}
	for number, value := range messages(b) {
		f, ok := fields[number]
		if !ok || f.of.Kind() != reflect.Struct {
			continue
		}
		path := path + f.name
		switch {
		case f.entries:
			name := ""
			for part, value := range messages(value) {
				if part == 1 {
					name = string(value)
				}
			}
			for part, value := range messages(value) {
				if part == 2 {
					if err := quantitiesIn(f.of, value, path+"["+name+"]"); err != nil {
						return err
					}
				}
			}
			continue
		case f.list:
			path = at(path, counts[number])
			counts[number]++
		}
		if err := quantitiesIn(f.of, value, path); err != nil {
			return err
		}
	}
	return nil
}
