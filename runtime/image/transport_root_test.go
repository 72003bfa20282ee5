package image

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"
)

// flood is text without an end, as long as it is read. It counts what was taken.
func flood(w http.ResponseWriter, begin string, taken *atomic.Int64) {
	_, _ = io.WriteString(w, begin)
	block := bytes.Repeat([]byte("a"), 64<<10)
	for taken.Load() < 1<<30 {
		n, err := w.Write(block)
		taken.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// wrapped serves what a liar has, except for what the handler takes.
func wrapped(t *testing.T, l *liar, takes func(w http.ResponseWriter, r *http.Request) bool) (host string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !takes(w, r) {
			l.Config.Handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// What is held in memory is bounded wherever the registry has it: a token may be said to be at the path of a blob.
func TestAnswersWithoutAnEnd(t *testing.T) {
	for name, c := range map[string]struct {
		realm string // a path; %s is the digest of the layer
		of    string // what needs a token
		floods
	}{
		"a token at a path of blobs":                   {"/blobs/token", "/", floods{"/blobs/token", `{"token":"`}},
		"a token at the path of the layer":             {"/v2/x/blobs/%s", "/blobs/", floods{"service=", `{"token":"`}},
		"a manifest in a repository that is called so": {"", "", floods{"/manifests/", `{"schemaVersion":2,"x":"`}},
		"an error of a repository that is called so":   {"", "", floods{"/manifests/", `{"errors":[{"message":"`}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t)
			layer := ""
			l.serve(t, small(t, "content"), func(m map[string]any, _ func(string, []byte)) {
				layer = m["layers"].([]any)[0].(map[string]any)["digest"].(string)
			})
			var taken atomic.Int64
			host := ""
			host = wrapped(t, l, func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case strings.Contains(r.URL.String(), c.path) && (r.Method == http.MethodGet || r.Method == http.MethodPost):
					if strings.Contains(c.begin, "errors") {
						w.WriteHeader(http.StatusForbidden)
					}
					flood(w, c.begin, &taken)
				case c.realm == "" && r.Method == http.MethodHead:
					w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
					w.WriteHeader(map[bool]int{true: http.StatusForbidden, false: http.StatusOK}[strings.Contains(c.begin, "errors")])
				case c.realm != "" && strings.Contains(r.URL.Path, c.of):
					realm := c.realm
					if strings.Contains(realm, "%") {
						realm = fmt.Sprintf(realm, layer)
					}
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s%s",service="x",scope="repository:x:pull"`, host, realm))
					w.WriteHeader(http.StatusUnauthorized)
				default:
					return false
				}
				return true
			})
			i := newImages(t, Options{})
			_, err := i.Ensure(t.Context(), host+"/"+map[bool]string{true: "x:1", false: "x/blobs/y:1"}[c.realm != ""], corev1.PullIfNotPresent, nil, nil)
			if err == nil || taken.Load() == 0 {
				t.Errorf("got %v", err)
			}
			if n := taken.Load(); n > 32<<20 { // with what the sockets hold
				t.Errorf("%d MB were taken: %v", n>>20, err)
			}
		})
	}
}

type floods struct{ path, begin string }

// A registry is asked for what it has as it is, and what it encodes all the same is decoded only if that is cheap.
func TestContentCodings(t *testing.T) {
	zip := func(content []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(content)
		_ = w.Close()
		return b.Bytes()
	}
	std := func(content []byte) []byte {
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll(content, nil)
	}
	as := func(content []byte) []byte { return content }
	for name, c := range map[string]struct {
		header []string
		encode func([]byte) []byte
		taken  bool
	}{
		"none":                   {nil, as, true},
		"identity":               {[]string{"identity"}, as, true},
		"gzip":                   {[]string{"gzip"}, zip, true},
		"zstd":                   {[]string{"zstd"}, std, false},
		"gzip of gzip":           {[]string{"gzip, gzip"}, func(b []byte) []byte { return zip(zip(b)) }, false},
		"zstd, a thousand times": {[]string{strings.Repeat("zstd,", 1000)}, std, false},
		"two headers":            {[]string{"gzip", "zstd"}, zip, false},
		"deflate":                {[]string{"deflate"}, as, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t)
			l.serve(t, small(t, "content"), func(map[string]any, func(string, []byte)) {})
			var asked atomic.Value
			host := wrapped(t, l, func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/blobs/") {
					return false
				}
				asked.Store(r.Header.Get("Accept-Encoding"))
				for _, h := range c.header {
					w.Header().Add("Content-Encoding", h)
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				_, _ = w.Write(c.encode(l.blobs[r.URL.Path]))
				return true
			})
			i := newImages(t, Options{})
			_, err := i.Ensure(t.Context(), host+"/x:1", corev1.PullIfNotPresent, nil, nil)
			if c.taken && err != nil || !c.taken && (!errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "content coding")) {
				t.Errorf("got %v", err)
			}
			if got := asked.Load(); got != "identity" {
				t.Errorf("asked for %v", got)
			}
		})
	}
}

// A registry that sends just enough not to be silent is given up, also if each byte has a connection of its own.
func TestRegistriesThatDribble(t *testing.T) {
	const stall = 200 * time.Millisecond
	for name, again := range map[string]bool{"in one answer": false, "in many answers": true} {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t)
			l.serve(t, small(t, "content"), func(m map[string]any, _ func(string, []byte)) {
				m["layers"].([]any)[0].(map[string]any)["size"] = 1 << 30
			})
			end := make(chan struct{})
			t.Cleanup(func() { close(end) })
			config := atomic.Bool{}
			host := wrapped(t, l, func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/blobs/") || config.CompareAndSwap(false, true) { // the config comes first
					return false
				}
				w.Header().Set("Content-Length", "1000000000")
				if from := r.Header.Get("Range"); from != "" {
					w.Header().Set("Content-Range", strings.Replace(from, "=", " ", 1)+"1073741823/1073741824")
					w.WriteHeader(http.StatusPartialContent)
				}
				for {
					if _, err := w.Write([]byte("a")); err != nil {
						return true
					}
					_ = http.NewResponseController(w).Flush()
					select {
					case <-end:
						return true
					case <-r.Context().Done():
						return true
					case <-time.After(stall / 4):
					}
					if again {
						panic(http.ErrAbortHandler)
					}
				}
			})
			i := newImages(t, Options{StallTimeout: stall})
			began := time.Now()
			_, err := i.Ensure(t.Context(), host+"/x:1", corev1.PullIfNotPresent, nil, nil)
			if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "less than 1000 a second") {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
		})
	}
}

// A pull that goes on and on ends after all.
func TestPullTimeout(t *testing.T) {
	l := newLiar(t)
	l.serve(t, small(t, "content"), func(m map[string]any, _ func(string, []byte)) {
		m["layers"].([]any)[0].(map[string]any)["size"] = 1 << 40
	})
	var taken atomic.Int64
	host := wrapped(t, l, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") || r.Header.Get("Accept") == "" || !strings.Contains(r.Header.Get("Accept"), "layer") {
			return false
		}
		for range 1000 {
			n, err := w.Write(make([]byte, 10_000))
			if taken.Add(int64(n)); err != nil {
				return true
			}
			_ = http.NewResponseController(w).Flush()
			<-time.After(20 * time.Millisecond)
		}
		return true
	})
	i := newImages(t, Options{PullTimeout: time.Second})
	_, err := i.Ensure(t.Context(), host+"/x:1", corev1.PullIfNotPresent, nil, nil)
	if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "has taken 1s") || taken.Load() == 0 {
		t.Errorf("after %d bytes: %v", taken.Load(), err)
	}
}
