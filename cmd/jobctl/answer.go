package main

import (
	"encoding/json"
	"io"

	"github.com/jobd/jobd/internal/yamltext"
)

// writeJSON writes an answer as -o json does.
func writeJSON(out io.Writer, answer any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "    ")
	return e.Encode(answer)
}

// writeYAML writes an answer as -o yaml does.
func writeYAML(out io.Writer, answer any) error {
	text, err := yamltext.Marshal(answer)
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}
