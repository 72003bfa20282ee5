package server

import (
	"errors"
	"strings"
	"testing"
)

func TestReadyzNamesWhatIsNot(t *testing.T) {
	var bad error
	ts := startServer(t, func(c *Config) { c.Ready = map[string]func() error{"runtime": func() error { return bad }} })
	if code, text := ts.do(t, "GET", "/readyz?verbose", "", ""); code != 200 || !strings.Contains(text, "[+]runtime ok") {
		t.Error(code, text)
	}
	bad = errors.New("crun is gone")
	if code, text := ts.do(t, "GET", "/readyz", "", ""); code != 500 || !strings.Contains(text, "[-]runtime") {
		t.Error(code, text)
	}
	if code, text := ts.do(t, "GET", "/metrics", "", ""); code != 200 || !strings.Contains(text, "apiserver_request_total") {
		t.Error(code, len(text))
	}
}
