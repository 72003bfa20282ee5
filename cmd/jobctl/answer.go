package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/internal/yamltext"
)

// writeJSON writes an answer as -o json does.
func writeJSON(out io.Writer, answer any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "    ")
	return e.Encode(answer)
}

// refused returns the error that an answer is.
func refused(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	var status metav1.Status
	if json.Unmarshal(raw, &status) == nil && status.Message != "" {
		return errors.New(status.Message)
	}
	if text := strings.TrimSpace(string(raw)); text != "" {
		return errors.New(text)
	}
	return fmt.Errorf("the daemon answers %s", resp.Status)
}

// writeYAML writes an answer as -o yaml does.
func writeYAML(out io.Writer, answer any) error {
	text, err := yamltext.Marshal(answer)
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}
