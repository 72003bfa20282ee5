// Package yamltext writes YAML of whatever is in an object. sigs.k8s.io/yaml reads the JSON of an object as YAML to write it, but
// YAML allows less than JSON does: one U+007F in a string, which anybody may write, and nobody sees the object; U+0085 becomes a
// space; keys have at most 1024 characters.
package yamltext

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	goyaml "go.yaml.in/yaml/v2" // as sigs.k8s.io/yaml writes with
)

// Marshal is yaml.Marshal for any strings in v.
func Marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return FromJSON(text)
}

// FromJSON is yaml.JSONToYAML for any strings in the JSON, which is a single value.
func FromJSON(text []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // integers beyond 2^53 are no floats
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("there is more than one JSON value")
	}
	v, err := withNumbers(v)
	if err != nil {
		return nil, err
	}
	return goyaml.Marshal(v)
}

// withNumbers turns the numbers in a value, which it may change, into those of Go.
func withNumbers(v any) (_ any, err error) {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			if v[k], err = withNumbers(v[k]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = withNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return n, nil
		}
		return v.Float64()
	}
	return v, nil
}
