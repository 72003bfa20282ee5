package main

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/jobd/jobd/internal/printable"
	"github.com/jobd/jobd/internal/yamltext"
)

// Commands of kubectl that print objects: for people, and also as YAML. All others have the standard output itself, since it may
// be a terminal to what runs in a pod or to a program that compares.
var (
	forPeople = []string{
		"get", "describe", "events", "annotate", "apply", "auth", "create", "delete", "label", "patch", "replace", "scale", "set", "wait",
		"api-resources", "api-versions", "cluster-info", "cordon", "drain", "taint", "uncordon", "version",
	}
	asYAML = []string{"get", "events", "annotate", "apply", "create", "label", "patch", "replace", "set"}
)

// output is the standard output of commands that print objects, whose strings others have written, or what the server says of itself. Kubectl's printer of YAML
// fails at some of them, and none of its printers takes out what deceives the eye.
type output struct {
	io.Writer
	terminal bool
	people   bool // the command prints for people
}

// newOutput returns what a command of kubectl should write to in place of out; nil if that is out itself.
func newOutput(root *cobra.Command, args []string, out io.Writer) *output {
	c, _, err := root.Find(args)
	if err != nil {
		return nil
	}
	top := c
	for top.HasParent() && top.Parent() != root {
		top = top.Parent()
	}
	// Aliases in the preferences are copies with a name of their own.
	among := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			known, _, err := root.Find([]string{name})
			return err == nil && known.Short == top.Short
		})
	}
	o := &output{Writer: out, terminal: printers.IsTerminal(out), people: among(forPeople)}
	yaml := c.Name() != "edit-last-applied" && among(asYAML) && slices.ContainsFunc(args, func(arg string) bool {
		return arg == "yaml" || strings.HasPrefix(arg, "-") && strings.HasSuffix(arg, "yaml") // perhaps; choose knows
	})
	if !yaml && !(o.terminal && o.people) {
		return nil
	}
	return o
}

// choose looks at the flags of the command that is about to run.
func (o *output) choose(c *cobra.Command) error {
	format := ""
	if f := c.Flags().Lookup("output"); f != nil {
		format = f.Value.String()
	}
	raw := c.Flags().Changed("raw")
	switch {
	case format == "yaml":
		o.Writer = &yamlWriter{to: o.Writer}
		return c.Flags().Set("output", "json")
	case o.terminal && o.people && !raw && format != "json" && format != "kyaml":
		o.Writer = printable.Writer(o.Writer)
	}
	return nil
}

// yamlWriter writes the JSON that it is given as YAML, object by object. What is no JSON stays as it is.
type yamlWriter struct {
	to      io.Writer
	pending []byte
	written int
}

func (w *yamlWriter) Write(p []byte) (int, error) {
	w.pending = append(w.pending, p...)
	for len(w.pending) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(w.pending))
		var object json.RawMessage
		switch err := decoder.Decode(&object); {
		case err == io.EOF: // there is only space
			w.pending = nil
			return len(p), nil
		case err == io.ErrUnexpectedEOF: // the rest comes later
			return len(p), nil
		case err != nil:
			text := w.pending
			w.pending = nil
			if _, err := w.to.Write(text); err != nil {
				return 0, err
			}
			return len(p), nil
		}
		w.pending = w.pending[decoder.InputOffset():]
		text, err := yamltext.FromJSON(object)
		if err != nil {
			return 0, err
		}
		if w.written++; w.written > 1 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := w.to.Write(text); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
