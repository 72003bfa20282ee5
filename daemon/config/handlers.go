package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/jobd/jobd/runtime"
)

// Handlers are OCI runtimes by the names that RuntimeClasses have for them. In a file each is a path, or a path and global
// options of the program; a flag has NAME=PATH,NAME=PATH and may be repeated.
type Handlers map[string]runtime.Handler

// UnmarshalJSON reads them as a file has them.
func (h *Handlers) UnmarshalJSON(data []byte) error {
	var named map[string]json.RawMessage
	if err := json.Unmarshal(data, &named); err != nil {
		return err
	}
	read := Handlers{}
	for name, value := range named {
		var one struct {
			Path string   `json:"path"`
			Args []string `json:"args"`
		}
		if json.Unmarshal(value, &one.Path) != nil {
			strict := json.NewDecoder(bytes.NewReader(value))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&one); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		read[name] = runtime.Handler{Name: name, Path: one.Path, Args: one.Args}
	}
	*h = read
	return nil
}

// Set adds those of a flag. It implements pflag.Value.
func (h *Handlers) Set(value string) error {
	if *h == nil {
		*h = Handlers{}
	}
	for part := range strings.SplitSeq(value, ",") {
		name, path, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("%q is not of the form NAME=PATH", part)
		}
		(*h)[name] = runtime.Handler{Name: name, Path: path}
	}
	return nil
}

// String returns what Set takes, without options. It implements pflag.Value.
func (h *Handlers) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(*h)) {
		parts = append(parts, name+"="+(*h)[name].Path)
	}
	return strings.Join(parts, ",")
}

// Type implements pflag.Value.
func (h *Handlers) Type() string { return "name=path" }

func (h Handlers) check() error {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if msgs := utilvalidation.IsDNS1123Label(name); len(msgs) > 0 {
			return fmt.Errorf("%q: %s", name, strings.Join(msgs, ", "))
		}
		if !filepath.IsAbs(h[name].Path) {
			return fmt.Errorf("%s: the path %q is not absolute", name, h[name].Path)
		}
	}
	return nil
}
