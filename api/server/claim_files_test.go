package server

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claimsIn are the files of claims in directories of their names.
type claimsIn string

func (c claimsIn) Files(_ context.Context, claim *corev1.PersistentVolumeClaim) (string, error) {
	return filepath.Join(string(c), claim.Name), nil
}

func TestFilesOfAClaim(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	ask := func(ts *testServer, method, query string, body io.Reader) (int, string) {
		t.Helper()
		url := "http://jobd/api/v1/namespaces/default/persistentvolumeclaims/data/files?" + query
		r, err := http.NewRequestWithContext(t.Context(), method, url, body)
		if err != nil {
			t.Fatal(err)
		}
		tr := &http.Transport{DialContext: ts.config().Dial}
		defer tr.CloseIdleConnections()
		answer, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	create := func(ts *testServer) {
		t.Helper()
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = amountsOf("storage", "1Mi")
		mustMake(t, ts.client(t).CoreV1().PersistentVolumeClaims("default"), claim)
	}
	ts := startServer(t, func(c *Config) { c.ClaimFiles = claimsIn(dir) })
	create(ts)

	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "answer", Mode: 0o644, Size: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "42"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if code, text := ask(ts, http.MethodPut, "path=/", &archive); code != http.StatusNoContent {
		t.Fatalf("PUT: %d: %s", code, text)
	}
	code, text := ask(ts, http.MethodGet, "path=/answer", nil)
	r := tar.NewReader(strings.NewReader(text))
	if _, err := r.Next(); code != http.StatusOK || err != nil {
		t.Fatalf("GET: %d: %v: %s", code, err, text)
	}
	if content, err := io.ReadAll(r); err != nil || string(content) != "42" {
		t.Errorf("it holds %q: %v", content, err)
	}
	if code, text := ask(ts, http.MethodGet, "path=/other", nil); code != http.StatusNotFound {
		t.Errorf("a file that is not there: %d: %s", code, text)
	}

	without := startServer(t)
	create(without)
	if code, text := ask(without, http.MethodGet, "path=/", nil); code != http.StatusBadRequest || !strings.Contains(text, "runs no containers") {
		t.Errorf("without containers: %d: %s", code, text)
	}
}
