package ask

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestAsk(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/is":
			fmt.Fprint(w, `{"method": "`+r.Method+`"}`)
		case "/text":
			fmt.Fprint(w, "no JSON")
		case "/forbidden":
			http.Error(w, `{"kind": "Status", "message": "forbidden: so it is", "code": 403}`, http.StatusForbidden)
		case "/full":
			http.Error(w, "the disk\x1b[2J is full", http.StatusInsufficientStorage)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})}
	defer server.Close()
	go server.Serve(l) //nolint:errcheck // it ends with the test
	d := Unix(socket)
	var is struct{ Method string }
	if err := d.JSON(t.Context(), http.MethodPost, "/is", &is); err != nil || is.Method != http.MethodPost {
		t.Errorf("%+v: %v", is, err)
	}
	if err := d.Do(t.Context(), http.MethodGet, "/is", nil); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]struct {
		code int
		said string
	}{
		"/text": {0, "the daemon's answer: "}, "/full": {507, "the disk"}, "/forbidden": {403, "forbidden: so it is"},
		"/none": {404, "the daemon answers 404 Not Found"},
	} {
		err := d.JSON(t.Context(), http.MethodGet, path, &is)
		var refusal *Refusal
		if err == nil || !strings.HasPrefix(err.Error(), want.said) || strings.Contains(err.Error(), "\x1b") || errors.As(err, &refusal) != (want.code > 0) {
			t.Errorf("%s: %v", path, err)
		} else if refusal != nil && refusal.Code != want.code {
			t.Errorf("%s: code %d", path, refusal.Code)
		}
	}
	if err := Unix(socket+"x").Do(t.Context(), http.MethodGet, "/is", nil); err == nil {
		t.Error("there is no daemon, and it answers")
	}
}
