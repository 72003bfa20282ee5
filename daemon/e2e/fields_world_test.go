package e2e

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/testdata/images"
)

// fieldObjects are what the pods of the tables refer to.
const fieldObjects = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: blue, shape: round}}
---
{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {user: me, password: pw}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}
---
{apiVersion: v1, kind: Service, metadata: {name: headless}, spec: {clusterIP: None, selector: {pod: names}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: linked}, spec: {ports: [{port: 80}]}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: patient}, value: 7, preemptionPolicy: Never}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: golden, labels: {tier: gold}}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 2Mi}, hostPath: {path: WORLDDIR/golden, type: DirectoryOrCreate}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: silver}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 2Mi}, hostPath: {path: WORLDDIR/silver, type: DirectoryOrCreate}}
`

// fieldWorld is the daemon of the tables, and servers of this process that probes and hooks reach at every address of
// the host.
type fieldWorld struct {
	*daemon
	dir, node                               string
	http, https, tcp, hook, grpc, grpcOnTLS string // their ports
	free                                    string // a port that nobody listens at
	mu                                      sync.Mutex
	heard                                   map[string]*http.Request // by path
	accepted                                map[string]bool          // by port: whether there was a connection
}

func startFields(t *testing.T) *fieldWorld {
	t.Helper()
	w := &fieldWorld{
		daemon: start(t, "--listen", freePort(t), "--runtime-request-timeout", "1h"), heard: map[string]*http.Request{}, accepted: map[string]bool{},
	}
	_, w.free, _ = net.SplitHostPort(freePort(t))
	var err error
	if w.dir, err = os.MkdirTemp("/var/tmp", "jobd-e2e-fields."); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(w.dir) })
	nodes, err := w.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.node = nodes.Items[0].Name
	w.apply(strings.ReplaceAll(fieldObjects, "WORLDDIR", w.dir))
	tree := images.NewTree()
	tree.Busybox("/bin")
	tree.Text("/content", 0o644, "other\n")
	tree.Text("/etc/passwd", 0o644, "root:x:0:0::/:/bin/sh\nme:x:1000:1000::/:/bin/sh\n")
	tree.Text("/etc/group", 0o644, "root:x:0:\nmine:x:5000:me\n")
	w.importImage(images.New(tree, v1.Config{Env: []string{"PATH=/bin", "FROM=image"}, WorkingDir: "/bin"}, "docker.io/library/other:1"))
	w.serveProbes()
	return w
}

// serveProbes starts the servers, which end with the test.
func (w *fieldWorld) serveProbes() {
	t := w.t
	listen := func() (net.Listener, string) {
		l, err := net.Listen("tcp4", ":0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l, strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	plain := httptest.NewUnstartedServer(http.HandlerFunc(w.hear))
	secret := httptest.NewUnstartedServer(http.HandlerFunc(w.hear))
	plain.Listener, w.http = listen()
	secret.Listener, w.https = listen()
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetHTTP1(true)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	t.Cleanup(plain.Close)
	secret.StartTLS()
	t.Cleanup(secret.Close)

	accept := func() string {
		l, port := listen()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_ = conn.Close()
				w.mu.Lock()
				w.accepted[port] = true
				w.mu.Unlock()
			}
		}()
		return port
	}
	w.tcp, w.hook = accept(), accept()

	serveHealth := func(options ...grpc.ServerOption) string {
		l, port := listen()
		s := grpc.NewServer(options...)
		healthpb.RegisterHealthServer(s, healthOf{health.NewServer()})
		go s.Serve(l)
		t.Cleanup(s.Stop)
		return port
	}
	w.grpc = serveHealth()
	w.grpcOnTLS = serveHealth(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: secret.TLS.Certificates, NextProtos: []string{"h2"}})))
}

func (w *fieldWorld) hear(_ http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard[r.URL.Path] = r
}

// request waits for a request for a path.
func (p *fieldPod) request(path string) (r *http.Request) {
	p.t.Helper()
	p.eventually("somebody asks for "+path, func() error {
		p.world.mu.Lock()
		defer p.world.mu.Unlock()
		if r = p.world.heard[path]; r == nil {
			return errText("not yet")
		}
		return nil
	})
	return r
}

// connected waits until somebody has connected to a port of this process.
func (p *fieldPod) connected(port string) {
	p.t.Helper()
	p.eventually("somebody connects to port "+port, func() error {
		p.world.mu.Lock()
		defer p.world.mu.Unlock()
		if !p.world.accepted[port] {
			return errText("not yet")
		}
		return nil
	})
}

// healthOf says that the service "healthy" is, and no other one.
type healthOf struct{ *health.Server }

func (healthOf) Check(_ context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if r.Service == "healthy" {
		status = healthpb.HealthCheckResponse_SERVING
	}
	return &healthpb.HealthCheckResponse{Status: status}, nil
}

// dirOf is what a pod's spec calls HOSTDIR.
func (w *fieldWorld) dirOf(pod string) string { return filepath.Join(w.dir, pod) }

// words are what a pod's spec and scripts have in capitals for what only the test knows.
func (w *fieldWorld) words(pod string) *strings.Replacer {
	return strings.NewReplacer("HOSTDIR", w.dirOf(pod), "NODENAME", w.node, "HTTPPORT", w.http, "HTTPSPORT", w.https,
		"TCPPORT", w.tcp, "HOOKPORT", w.hook, "GRPCPORT", w.grpc, "GRPCTLSPORT", w.grpcOnTLS, "HOSTPORT", w.free)
}
