package submit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

var (
	// unknownField is what the server says of a field that a kind does not have, also of an object that is applied there, and handledAs of
	// which kind it speaks.
	unknownField = regexp.MustCompile(`unknown field "([^"]+)"|(?m)\.(\S+): field not declared in schema`)
	handledAs    = regexp.MustCompile(`cannot be handled as a (\w+)|failed to create typed patch object \([^)]*, Kind=(\w+)\)`)
	// unregistered is what it says of a kind that does not exist.
	unregistered = regexp.MustCompile(`no kind "([^"]+)" is registered for version "([^"]+)"`)
	// element is the position in a list, or the key of an element.
	element = regexp.MustCompile(`\[[^\]]*\]`)
)

// mostFields is for how many fields it is said what is meant: after that the file is of another kind.
const mostFields = 4

// misspelt says which fields are meant by those that a kind does not have, given what the server says of them; "" if nothing comes close.
func misspelt(message string, sent ...[]byte) string {
	fields := unknownField.FindAllStringSubmatch(message, mostFields)
	if fields == nil {
		return ""
	}
	var kinds []string
	if m := handledAs.FindStringSubmatch(message); m != nil {
		kinds = append(kinds, cmp.Or(m[1], m[2]))
	}
	for _, body := range sent {
		if kind, is := manifestOf(body)["kind"].(string); is {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	of := typeOf(kinds[0])
	if of == nil {
		return ""
	}
	var lines []string
	for _, m := range fields {
		if line := meant(kinds[0], of, strings.Split(element.ReplaceAllString(cmp.Or(m[1], m[2]), ""), ".")); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// typeOf returns the Go type of a kind of the API; nil for others.
func typeOf(kind string) reflect.Type {
	var found []schema.GroupVersionKind
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if gvk.Kind == kind {
			found = append(found, gvk)
		}
	}
	if len(found) == 0 {
		return nil
	}
	stable := slices.MinFunc(found, func(a, b schema.GroupVersionKind) int { // v1 comes before v1alpha1 and v1beta1
		return cmp.Or(cmp.Compare(len(a.Version), len(b.Version)), cmp.Compare(a.Group, b.Group))
	})
	return scheme.Scheme.AllKnownTypes()[stable]
}

// meant says which field is meant by a path that a type does not have: a field beside it with almost that name, or else the
// nearest field with exactly that name; "" if there is none.
func meant(kind string, root reflect.Type, path []string) string {
	at, wrong, parent := path[:len(path)-1], path[len(path)-1], root
	for _, name := range at {
		if parent = fieldsOf(parent)[name]; parent == nil {
			return ""
		}
	}
	beside := slices.SortedFunc(maps.Keys(fieldsOf(parent)), func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(a, wrong), distance(b, wrong)), cmp.Compare(a, b))
	})
	ask := func(is func(name string) bool) string {
		if i := slices.IndexFunc(beside, is); i >= 0 {
			return fmt.Sprintf("%s: is %s meant?", strings.Join(path, "."), beside[i])
		}
		return ""
	}
	if near := ask(func(name string) bool { return distance(name, wrong) <= max(1, len(wrong)/4) }); near != "" {
		return near
	}
	if there := elsewhere(root, at, wrong); there != "" {
		return fmt.Sprintf("%s: in a %s it is %s.", strings.Join(path, "."), kind, there)
	}
	return ask(func(name string) bool { return len(wrong) > 2 && strings.HasPrefix(name, wrong) })
}

// elsewhere returns the path of the field of a name that shares most of its way with another path, and of these the shortest.
func elsewhere(root reflect.Type, at []string, name string) string {
	var found [][]string
	var walk func(t reflect.Type, way []string, above []reflect.Type)
	walk = func(t reflect.Type, way []string, above []reflect.Type) {
		if slices.Contains(above, t) || len(way) > 9 {
			return
		}
		for field, of := range fieldsOf(t) {
			if len(way) == 0 && field != "spec" && field != "metadata" && field != "data" { // nobody writes a status
				continue
			}
			here := append(slices.Clone(way), field)
			if field == name {
				found = append(found, here)
			}
			walk(of, here, append(above, t))
		}
	}
	walk(root, nil, nil)
	if len(found) == 0 {
		return ""
	}
	shared := func(way []string) (n int) {
		for n < len(at) && n < len(way) && way[n] == at[n] {
			n++
		}
		return n
	}
	return strings.Join(slices.MinFunc(found, func(a, b []string) int {
		return cmp.Or(cmp.Compare(shared(b), shared(a)), cmp.Compare(len(a), len(b)), slices.Compare(a, b))
	}), ".")
}

// fieldsOf returns the fields that an object of a type has in JSON, with the types of their values or, of lists, of their elements.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	fields := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			for name, of := range fieldsOf(field.Type) {
				fields[name] = of
			}
		case name != "":
			fields[name] = field.Type
		}
	}
	return fields
}

// distance is how many letters have to be changed, added or left out to make one name of another, whatever their case.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(changed, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}

// KindMeant returns the kind of the API that is meant by one which differs by its case, or is written in the plural; "" if there is none.
func KindMeant(kind string, of schema.GroupVersion) string {
	var all []string
	for name := range scheme.Scheme.KnownTypes(of) {
		if name != kind && (strings.EqualFold(name, kind) || strings.EqualFold(name+"s", kind)) {
			all = append(all, name)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return slices.Min(all)
}
