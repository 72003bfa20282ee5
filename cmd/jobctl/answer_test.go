package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// What the daemon refuses is told in its words, and not as JSON.
func TestRefused(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind": "Status", "message": "forbidden: User \"unix:bob\" cannot get path", "code": 403}`: `forbidden: User "unix:bob" cannot get path`,
		"no listen address\n": "no listen address",
		"":                    "the daemon answers 409 Conflict",
	} {
		err := refused(&http.Response{Status: "409 Conflict", Body: io.NopCloser(strings.NewReader(body))})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}
