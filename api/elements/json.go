package elements

import (
	"bytes"
	"encoding/json"
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
	wantsKey bool // the next string is one
	key      []byte
	index    int
	count    int
}

// scan goes through a body once.
type scan struct {
	tally
	body   []byte
	patch  bool
	at     int
	frames []frame
}

func (s *scan) run() *field.Error {
	for i := 0; i < len(s.body); i++ {
		top := s.top()
		switch s.at = i; s.body[i] {
		case '"':
			end := endOfString(s.body, i+1)
			if top != nil && top.wantsKey {
				top.key, top.wantsKey = s.body[i+1:min(end, len(s.body))], false
			}
			i = end
		case '{', '[':
			if err := s.element(top); err != nil {
				return err
			}
			list := s.body[i] == '['
			s.frames = append(s.frames, frame{list: list, counts: list && (top != nil || !s.patch), wantsKey: !list})
			if len(s.frames) > maxDepth {
				return nil
			}
		case '}', ']':
			if top == nil {
				return nil
			}
			s.frames = s.frames[:len(s.frames)-1]
		case 'n':
			if err := s.element(top); err != nil {
				return err
			}
			i += len("null") - 1
		case ',':
			if top != nil {
				top.index++
				top.wantsKey = !top.list
			}
		}
	}
	return nil
}

func (s *scan) top() *frame {
	if len(s.frames) == 0 {
		return nil
	}
	return &s.frames[len(s.frames)-1]
}

// element counts an element of the innermost list.
func (s *scan) element(in *frame) *field.Error {
	if in == nil || !in.counts {
		return nil
	}
	if in.count++; s.list(in.count) {
		return nil
	}
	return s.exceeded(s.path(), s.rest(in))
}

// rest returns how many elements the innermost list has, as far as its commas say.
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

// path returns where the innermost list is.
func (s *scan) path() string {
	var b strings.Builder
	for i := range s.frames[:len(s.frames)-1] {
		if f := &s.frames[i]; f.list {
			b.WriteString(at("", f.index))
		} else {
			b.WriteString("." + string(f.key))
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

// InYAML looks at a body in YAML, which is JSON for most clients. An alias can stand for many elements. converting is called
// before a body is converted that may be too large.
func InYAML(body []byte, converting func() error) (*field.Error, error) {
	separators := bytes.Count(body, []byte(",")) + bytes.Count(body, []byte("-"))
	aliases := bytes.IndexByte(body, '*') >= 0 && bytes.IndexByte(body, '&') >= 0
	if separators < Most && !aliases {
		return nil, nil
	}
	if json.Valid(body) {
		return InJSON(body, false), nil
	}
	if err := converting(); err != nil {
		return nil, err
	}
	converted, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, nil // the decoder says so in its words
	}
	return InJSON(converted, false), nil
}
