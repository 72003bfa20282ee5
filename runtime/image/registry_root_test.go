package image

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/registry"
)

func TestPullRefusedByTheRegistry(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	there, _ := r.Push(t, small(t, "there"), "there:1")
	i := newImages(t, Options{})
	for _, c := range []struct {
		rule, ref string
		class     func(error) bool
		says      string
	}{
		{"a missing tag", r.Host + "/there:2", errdefs.IsNotFound, "manifest unknown"},
		{"a missing repository", r.Host + "/nowhere:1", errdefs.IsNotFound, "manifest unknown"},
		{"a wrong digest", r.Host + "/there@sha256:" + strings.Repeat("1", 64), errdefs.IsNotFound, "manifest unknown"},
		{"a name that is none", "Not A Name", errdefs.IsInvalidArgument, "Not A Name"},
		{"a digest that is none", there + "@sha256:1", errdefs.IsInvalidArgument, "sha256:1"},
		{"an unreachable port", "127.0.0.1:1/there:1", errdefs.IsUnavailable, "connection refused"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := i.Ensure(t.Context(), c.ref, corev1.PullIfNotPresent, nil, nil)
			if err == nil || !c.class(err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v (%v), want %q", err, errdefs.Resolve(err), c.says)
			}
			t.Log(err)
		})
	}
}

func TestPullWithCredentials(t *testing.T) {
	r := registry.Start(t, registry.Options{User: "me", Password: "secret"})
	name, _ := r.Push(t, small(t, "private"), "private:1")
	basic := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	wrong := base64.StdEncoding.EncodeToString([]byte("me:guess"))
	helpers := t.TempDir()
	for file, script := range map[string]string{
		"docker-credential-good": `echo '{"ServerURL":"","Username":"me","Secret":"secret"}'`,
		"docker-credential-bad":  `echo "the helper is broken"; exit 1`,
	} {
		if err := os.WriteFile(filepath.Join(helpers, file), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		rule, config string
		class        func(error) bool
		says         string
	}{
		{"the right password", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Host, basic), nil, ""},
		{"a credential helper that knows it", fmt.Sprintf(`{"credHelpers":{%q:"good"}}`, r.Host), nil, ""},
		{"the wrong password", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Host, wrong), errdefs.IsUnauthorized, "401"},
		{"none", `{}`, errdefs.IsUnauthorized, "no basic auth credentials"},
		{"those of another registry", fmt.Sprintf(`{"auths":{"example.com":{"auth":%q}}}`, basic), errdefs.IsUnauthorized, "no basic auth credentials"},
		{"a credential helper that fails", fmt.Sprintf(`{"credHelpers":{%q:"bad"}}`, r.Host), nil, "the helper is broken"},
		{"a config that is no JSON", `{`, nil, "config.json"},
	} {
		for _, place := range []string{"ROOT/docker/config.json", "$DOCKER_CONFIG"} {
			t.Run(c.rule+" in "+place, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "config.json")
				if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
					t.Fatal(err)
				}
				var o Options
				if strings.HasPrefix(place, "ROOT") {
					o.DockerConfigPath = file
				}
				i := newImages(t, o)
				if o.DockerConfigPath == "" {
					t.Setenv("DOCKER_CONFIG", filepath.Dir(file))
				}
				t.Setenv("PATH", helpers+":"+os.Getenv("PATH"))
				_, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, nil, nil)
				if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || c.class != nil && !c.class(err) {
					t.Errorf("got %v (%v), want %q", err, errdefs.Resolve(err), c.says)
				}
				t.Log(err)
			})
		}
	}
}

// hang accepts connections and never answers.
func hang(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String()
}

func TestPullFromARegistryThatNeverAnswers(t *testing.T) {
	i := newImages(t, Options{AnswerTimeout: soon})
	_, err := i.Ensure(t.Context(), hang(t)+"/a:1", corev1.PullIfNotPresent, nil, nil)
	if !errdefs.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
	t.Log(err)
}

// breaking makes the registry break layers in some way once it is switched on.
type breaking struct {
	on    atomic.Bool
	layer func(w http.ResponseWriter, req *http.Request, next http.Handler)
}

func (b *breaking) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if b.on.Load() && req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/blobs/") {
			b.layer(w, req, next)
			return
		}
		next.ServeHTTP(w, req)
	})
}

func TestPullOfABlobThat(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 1<<14)
	for _, c := range []struct {
		rule  string
		layer func(w http.ResponseWriter, req *http.Request, next http.Handler)
		class func(error) bool
		stall time.Duration
	}{
		{"stalls in the middle", func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			rec := &recorder{header: http.Header{}}
			next.ServeHTTP(rec, req)
			w.Header().Set("Content-Length", fmt.Sprint(len(rec.body)))
			_, _ = w.Write(rec.body[:len(rec.body)/2])
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		}, errdefs.IsUnavailable, soon},
		{"is cut off in the middle, always", func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
			w.Header().Set("Content-Length", "300000")
			w.WriteHeader(http.StatusPartialContent)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, errdefs.IsUnavailable, time.Minute},
		{"is another one", func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			// As long as what it should be, but not the same.
			rec := &recorder{header: http.Header{}}
			next.ServeHTTP(rec, req)
			rec.body[len(rec.body)/2] ^= 1
			w.Header().Set("Content-Length", fmt.Sprint(len(rec.body)))
			_, _ = w.Write(rec.body)
		}, errdefs.IsDataLoss, time.Minute},
		{"is forbidden", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"errors":[{"code":"DENIED","message":"not for you"}]}`)
		}, errdefs.IsPermissionDenied, time.Minute},
		{"the registry cannot serve", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(http.StatusBadGateway)
		}, errdefs.IsUnavailable, time.Minute},
	} {
		t.Run(c.rule, func(t *testing.T) {
			b := &breaking{layer: c.layer}
			r := registry.Start(t, registry.Options{Wrap: b.wrap})
			name, _ := r.Push(t, small(t, content), "broken:1")
			i := newImages(t, Options{})
			i.options.StallTimeout = c.stall
			b.on.Store(true)
			_, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, nil, nil)
			if err == nil || !c.class(err) {
				t.Errorf("got %v (%v)", err, errdefs.Resolve(err))
			}
			t.Log(err)
			b.on.Store(false)
			i.options.StallTimeout = time.Minute
			if _, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, nil, nil); err != nil {
				t.Errorf("once it is mended: %v", err)
			}
		})
	}
}

type recorder struct {
	header http.Header
	body   []byte
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(int) {}

func (r *recorder) Write(p []byte) (int, error) { r.body = append(r.body, p...); return len(p), nil }

// A registry's hosts.toml names a mirror, and the certificate authority of one that nobody else knows.
func TestPullByHostsFile(t *testing.T) {
	r := registry.Start(t, registry.Options{})
	_, digest := r.Push(t, small(t, "mirrored"), "library/mirrored:1")
	target, err := url.Parse("http://" + r.Host)
	if err != nil {
		t.Fatal(err)
	}
	private := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(target))
	private.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not know it
	private.StartTLS()
	t.Cleanup(private.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: private.Certificate().Raw})
	const pulls = "capabilities = [\"pull\", \"resolve\"]\n"
	for _, c := range []struct{ rule, toml, says string }{
		{"a mirror", "server = \"http://127.0.0.1:1\"\n[host.\"http://" + r.Host + "\"]\n" + pulls, ""},
		{"a mirror whose authority is given", "server = \"http://127.0.0.1:1\"\n[host.\"" + private.URL + "\"]\n" + pulls + "ca = \"ca.crt\"\n", ""},
		{"the registry itself, whose authority is given", "server = \"" + private.URL + "\"\nca = \"ca.crt\"\n", ""},
		{"an authority that nobody knows", "server = \"" + private.URL + "\"\n", "certificate signed by unknown authority"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			hosts := t.TempDir()
			dir := filepath.Join(hosts, "docker.io")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, content := range map[string]string{"hosts.toml": c.toml, "ca.crt": string(authority)} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			i := newImages(t, Options{HostsDir: hosts})
			img, err := i.Ensure(t.Context(), "mirrored:1", corev1.PullAlways, nil, nil)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %q", err, c.says)
				}
				return
			}
			if err != nil || img.Digest != digest || img.Name != "docker.io/library/mirrored:1" {
				t.Errorf("got %+v, %v", img, err)
			}
		})
	}
}

// rude is a server that answers what it does not understand with something that is not HTTP, as Python's does.
type rude struct{ net.Listener }

func (l rude) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &rudeConn{Conn: c}, nil
}

type rudeConn struct {
	net.Conn
	begun bool
}

func (c *rudeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.begun && n > 0 && p[0] == 0x16 { // of TLS
		_, _ = io.WriteString(c.Conn, "<!DOCTYPE HTML>what?")
		return 0, io.EOF
	}
	c.begun = true
	return n, err
}

// A registry on localhost needs no TLS, as for containerd and docker; others do.
func TestRegistryOnLocalhostWithoutTLS(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost", "127.0.0.2"} {
		for _, polite := range []bool{true, false} {
			l := newLiar(t)
			l.serve(t, small(t, "content"), func(map[string]any, func(string, []byte)) {})
			listener, err := net.Listen("tcp4", strings.Replace(host, "localhost", "127.0.0.1", 1)+":0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			_, port, _ := net.SplitHostPort(listener.Addr().String())
			serve := listener
			if !polite {
				serve = rude{listener}
			}
			go func() { _ = http.Serve(serve, l.Config.Handler) }()
			if _, err := newImages(t, Options{}).Ensure(t.Context(), host+":"+port+"/x:1", corev1.PullIfNotPresent, nil, nil); err != nil {
				t.Errorf("%s, polite %v: %v", host, polite, err)
			}
		}
	}
}
