package elements

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// maxDepth is that of the decoder, which refuses what is deeper.
const maxDepth = 10_000

// InJSON looks at a body in JSON. What is no JSON is left to the decoder. patch says that the body is a JSON patch, whose
// operations are a list that somebody else bounds.
func InJSON(body []byte, patch bool) *field.Error {
	if bytes.Count(body, []byte(",")) < Most {
		return nil
	}
	s := scan{body: body, patch: patch}
	return s.run()
}

// frame is an object or a list that is open.
type frame struct {
	list     bool
	counts   bool // its elements
	free     bool // has as many texts and numbers as it likes
	managed  bool // is of the fields that somebody manages
	wantsKey bool // the next string is one
	key      []byte
	begin    int
	changes  *string // of an operation of a JSON patch, once it is known
	index    int
	count    int
}

// manyTexts are the lists of texts that may be as long as a body: they are replaced as a whole, so that nothing looks for one of
// their elements.
var manyTexts = map[string]bool{"args": true, "command": true}

// scan goes through a body once. It counts elements and keys; or, if it knows the types of values, it looks for quantities.
type scan struct {
	tally
	body   []byte
	within string // where the body is in another one, if it is that of managed fields
	patch  bool
	noting bool // the lists
	lists  []named
	types  []reflect.Type // of the whole and of what is open in it, nil if one has no quantities; empty if the scan counts
	at     int
	frames []frame
}

func (s *scan) run() *field.Error {
	for i := 0; i < len(s.body); i++ {
		top := s.top()
		switch s.at = i; s.body[i] {
		case '"':
			end := endOfString(s.body, i+1)
			var err *field.Error
			if top != nil && top.wantsKey {
				last := top.key
				top.key, top.wantsKey = s.body[i+1:min(end, len(s.body))], false
				err = s.key(top, last)
			} else {
				err = s.scalar(top, end+1)
			}
			if err != nil {
				return err
			}
			i = end
		case '{', '[':
			if err := s.element(top); err != nil {
				return err
			}
			list := s.body[i] == '['
			if len(s.types) > 0 {
				s.types = append(s.types, s.typeHere())
			}
			s.frames = append(s.frames, frame{
				begin: i, list: list, counts: list && (top != nil || !s.patch), wantsKey: !list, free: list && s.ofManyTexts(top),
				managed: top == nil && s.within != "" || top != nil && (top.managed || string(top.key) == "fieldsV1"),
			})
			if len(s.frames) > maxDepth {
				return nil
			}
		case '}', ']':
			if top == nil {
				return nil
			}
			s.note()
			s.frames = s.frames[:len(s.frames)-1]
			if len(s.types) > 0 {
				s.types = s.types[:len(s.types)-1]
			}
		case 'n':
			if err := s.element(top); err != nil {
				return err
			}
			i += len("null") - 1
		case 't', 'f', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			end := endOfWord(s.body, i+1)
			if err := s.scalar(top, end); err != nil {
				return err
			}
			i = end - 1
		case ',':
			if top != nil {
				top.index++
				top.wantsKey = !top.list
			}
		}
	}
	return nil
}

// ofManyTexts reports whether a list in an object may have as many texts as it likes.
func (s *scan) ofManyTexts(in *frame) bool {
	if in == nil || in.list {
		return false
	}
	if s.patch && len(s.frames) == 2 && string(in.key) == "value" {
		if in.changes == nil { // an operation may have any number of values
			name := s.changed(in.begin)
			in.changes = &name
		}
		return manyTexts[*in.changes]
	}
	return manyTexts[string(in.key)]
}

// changed returns the name of the field that an operation of a JSON patch changes, which may say so behind the value.
func (s *scan) changed(begin int) string {
	var is map[string]json.RawMessage
	var path string
	if json.NewDecoder(bytes.NewReader(s.body[begin:])).Decode(&is) != nil || json.Unmarshal(is["path"], &path) != nil {
		return ""
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

func (s *scan) top() *frame {
	if len(s.frames) == 0 {
		return nil
	}
	return &s.frames[len(s.frames)-1]
}

// scalar looks at a text, a number or a boolean, which ends before end.
func (s *scan) scalar(in *frame, end int) *field.Error {
	if len(s.types) > 0 {
		return s.value(end)
	}
	if in == nil || !in.counts || in.free {
		return nil
	}
	if in.count++; s.scalarOf(in.count) {
		return nil
	}
	return s.exceeded(s.pathTo(), s.rest(in))
}

// key counts a key of the innermost object, which comes after the last one.
func (s *scan) key(in *frame, last []byte) *field.Error {
	if len(s.types) > 0 || in.managed && in.count == 0 && string(in.key) == "." { // which says that the map itself is managed
		return nil
	}
	in.count++
	if in.managed && inOrder(in.count, last, in.key) && in.count <= mostKeys || s.keyOf(in.count) {
		return nil
	}
	return s.exceededKeys(s.pathTo(), s.rest(in))
}

// inOrder reports whether a key of managed fields, as it stands between quotes, is behind the ones before it, as those are that a
// server has written. It is put at the end of what is there; any other is put between, and all behind it are moved.
func inOrder(count int, last, key []byte) bool {
	return isField(key) && (count == 1 || isField(last) && bytes.Compare(last, key) < 0)
}

// isField reports whether a key is the name of a field, or of a key in a map, without any escapes.
func isField(key []byte) bool {
	return bytes.HasPrefix(key, []byte("f:")) && !bytes.Contains(key, []byte(`\`))
}

// pathTo returns where the innermost object or list is.
func (s *scan) pathTo() string { return s.within + pathOf(s.frames[:len(s.frames)-1]) }

// element counts an element of the innermost list.
func (s *scan) element(in *frame) *field.Error {
	if in == nil || !in.counts || len(s.types) > 0 {
		return nil
	}
	if in.count++; s.list(in.count) {
		return nil
	}
	return s.exceeded(s.pathTo(), s.rest(in))
}

// rest returns how many elements the innermost list or object has, as far as its commas say.
func (s *scan) rest(in *frame) int {
	depth, n := 0, in.index+1
	for i := s.at; i < len(s.body); i++ {
		switch s.body[i] {
		case '"':
			i = endOfString(s.body, i+1)
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return n
			}
		case ',':
			if depth == 0 {
				n++
			}
		}
	}
	return n
}

// pathOf returns where the next value of the innermost frame is.
func pathOf(frames []frame) string {
	var b strings.Builder
	for i := range frames {
		if f := &frames[i]; f.list {
			b.WriteString(at("", f.index))
		} else {
			b.WriteString("." + keyText(f.key))
		}
	}
	return b.String()
}

// endOfString returns where the quotes are that end a string.
func endOfString(b []byte, from int) int {
	for i := from; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(b)
}

// endOfWord returns where a number, true or false ends.
func endOfWord(b []byte, from int) int {
	for i := from; i < len(b); i++ {
		switch b[i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r', '"', '[', '{', ':':
			return i
		}
	}
	return len(b)
}

// ToJSON returns a body in YAML as JSON, which it is for most clients. An alias can stand for many elements. converting is called
// before a body is converted. What is no YAML is nil, and left to the decoder.
func ToJSON(body []byte, converting func() error) ([]byte, error) {
	if json.Valid(body) {
		return body, nil
	}
	if err := converting(); err != nil {
		return nil, err
	}
	converted, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, nil // the decoder says so in its words
	}
	return converted, nil
}
