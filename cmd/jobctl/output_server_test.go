package main

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// hostileServer answers on a socket, and has what acts on a terminal wherever a server may say what it likes.
func hostileServer(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	resources := func(version string, all ...any) map[string]any {
		return map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": all}
	}
	kind := func(plural, kind string) map[string]any {
		return map[string]any{"name": plural, "kind": kind, "namespaced": true, "verbs": []string{"get", "list", "patch"}, "shortNames": []string{odd}}
	}
	answers := map[string]any{
		"/version": map[string]any{"major": "1", "minor": "30", "gitVersion": "v1.30.0-" + odd},
		"/api":     map[string]any{"kind": "APIVersions", "versions": []string{"v1"}},
		"/apis": map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{
			map[string]any{"name": "batch", "versions": []any{map[string]any{"groupVersion": "batch/v1", "version": "v1"}}},
		}},
		"/api/v1":        resources("v1", kind(odd, odd)),
		"/apis/batch/v1": resources("batch/v1", kind("jobs", "Job")),
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			answer = map[string]any{"kind": "Job", "apiVersion": "batch/v1", "metadata": map[string]any{"name": odd, "namespace": "default"}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return socket
}

// What a server says of itself, and what it calls objects, does nothing on a terminal.
func TestHostileServerOnATerminal(t *testing.T) {
	d := &daemon{socket: hostileServer(t), home: t.TempDir()}
	const clean = "a\uFFFDb\uFFFD31mc\uFFFDd"
	if out := d.onTerminal(t, "api-resources"); !strings.Contains(out, clean) || strings.Contains(out, odd) {
		t.Errorf("%q", out)
	}
	if out, code := d.jobctl(t, "", "suspend", "jobs/x"); code == 0 || !strings.Contains(out, "which is no name") || strings.Contains(out, odd) {
		t.Errorf("%d, %q", code, out)
	}
}
