// Package registry runs a real registry for tests: Debian's docker-registry.
package registry

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/crypto/bcrypt"
)

// Options of Start. The zero value lets everybody in.
type Options struct {
	User, Password string
	// Wrap stands between clients and the registry, to break things. It sees what Push sends too.
	Wrap func(http.Handler) http.Handler
}

// Registry is a registry that runs until its test ends.
type Registry struct {
	// Host is its address for image names: 127.0.0.1:PORT. It speaks plain HTTP.
	Host string

	options  Options
	mu       sync.Mutex
	requests []string
}

// Start runs a registry of its own for a test. It skips the test when docker-registry is not installed.
func Start(t testing.TB, o Options) *Registry {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Skip("needs docker-registry (apt install docker-registry)")
	}
	// The path of a unix socket must be short, so it is not below the test's own directory.
	dir, err := os.MkdirTemp("", "registry")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	config := fmt.Sprintf(`version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: %s}
  delete: {enabled: true}
http: {net: unix, addr: %s, relativeurls: true}
`, filepath.Join(dir, "data"), socket)
	if o.User != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(o.Password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		passwords := filepath.Join(dir, "htpasswd")
		write(t, passwords, o.User+":"+string(hash)+"\n")
		config += "auth: {htpasswd: {realm: test, path: " + passwords + "}}\n"
	}
	write(t, filepath.Join(dir, "config.yml"), config)

	var output bytes.Buffer
	cmd := exec.Command(program, "serve", filepath.Join(dir, "config.yml"))
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("docker-registry ended: %v\n%s", err, output.String())
		default:
		}
		if time.Since(start) > 30*time.Second {
			t.Fatal("docker-registry does not listen after 30 s")
		}
	}

	r := &Registry{options: o}
	var handler http.Handler = &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", "registry"
			p.Out.Host = p.In.Host
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
			DisableCompression: true,
		},
	}
	if o.Wrap != nil {
		handler = o.Wrap(handler)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.requests = append(r.requests, req.Method+" "+req.URL.Path)
		r.mu.Unlock()
		handler.ServeHTTP(w, req)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	r.Host = server.Listener.Addr().String()
	return r
}

// Requests lists what clients have requested since the last call: "GET /v2/NAME/manifests/TAG".
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := r.requests
	r.requests = nil
	return requests
}

// Count returns how many of the requests begin with a method and contain a part of a path.
func Count(requests []string, method, part string) int {
	n := 0
	for _, r := range requests {
		if strings.HasPrefix(r, method+" ") && strings.Contains(r, part) {
			n++
		}
	}
	return n
}

// Push stores an image as REPOSITORY:TAG, or REPOSITORY@DIGEST, and returns its full name and its digest.
func (r *Registry) Push(t testing.TB, image v1.Image, tail string) (full, digest string) {
	t.Helper()
	ref, options := r.remote(t, tail)
	if err := remote.Write(ref, image, options...); err != nil {
		t.Fatalf("push %s: %v", ref, err)
	}
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return ref.Name(), hash.String()
}

// PushIndex stores an index of several images.
func (r *Registry) PushIndex(t testing.TB, index v1.ImageIndex, tail string) (full, digest string) {
	t.Helper()
	ref, options := r.remote(t, tail)
	if err := remote.WriteIndex(ref, index, options...); err != nil {
		t.Fatalf("push %s: %v", ref, err)
	}
	hash, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return ref.Name(), hash.String()
}

func (r *Registry) remote(t testing.TB, tail string) (name.Reference, []remote.Option) {
	t.Helper()
	ref, err := name.ParseReference(r.Host+"/"+tail, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	options := []remote.Option{remote.WithTransport(&http.Transport{})} // no proxy: it is on this machine
	if r.options.User != "" {
		options = append(options, remote.WithAuth(&authn.Basic{Username: r.options.User, Password: r.options.Password}))
	}
	return ref, options
}

func write(t testing.TB, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
