package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// deafPort returns a port of 127.0.0.1 on which nobody listens, and which nobody else can take while the test runs.
func deafPort(t *testing.T) int {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(socket) })
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return bound.(*unix.SockaddrInet4).Port
}

func TestTargets(t *testing.T) {
	var loops atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers := strings.Join(slices.Concat(r.Header["X"], r.Header["Accept"], r.Header["User-Agent"]), " ")
		switch {
		case r.URL.Path == "/loop":
			loops.Add(1)
			http.Redirect(w, r, "/loop", http.StatusFound)
		case r.URL.Path == "/headers" && headers == "a b text/html jobd-probe", r.URL.Path == "/ok" && r.Host == "name":
		default:
			http.Error(w, "a secret of "+r.Host, http.StatusTeapot)
		}
	}))
	defer server.Close()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number := intstr.Parse(port)
	none := intstr.FromInt(deafPort(t))
	named := []corev1.HTTPHeader{{Name: "Host", Value: "name"}}
	several := []corev1.HTTPHeader{{Name: "X", Value: "a"}, {Name: "x", Value: "b"}, {Name: "accept", Value: "text/html"}}
	to := target{ip: host, container: &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(number.IntValue())}}}}
	for _, tc := range []struct {
		name, want string
		probe      corev1.ProbeHandler
	}{
		{"a page", "", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ok", Port: number, HTTPHeaders: named}}},
		{"a port by its name", "", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ok", Port: intstr.FromString("web"), HTTPHeaders: named}}},
		{"a name that no port has", `no port "other"`, corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("other")}}},
		{"a bad answer", "statuscode: 418", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/x", Port: number, HTTPHeaders: named}}},
		{"redirects without end", "stopped after 10 redirects", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/loop", Port: number}}},
		{"headers", "", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/headers", Port: number, HTTPHeaders: several}}},
		{"a port that is open", "", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: number}}},
		{"a port that is not", "refused", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: none}}},
		{"no service", "", corev1.ProbeHandler{}},
	} {
		_, err := to.probe(t.Context(), tc.probe)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the answer shows in %v", tc.name, err)
		}
	}
	if n := loops.Load(); n != maxRedirects {
		t.Errorf("%d requests of a probe that is redirected without end", n)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	checks, service := health.NewServer(), grpc.NewServer()
	checks.SetServingStatus("ill", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(service, checks)
	go service.Serve(l)
	defer service.Stop()
	ask := &corev1.GRPCAction{Port: int32(l.Addr().(*net.TCPAddr).Port)}
	if _, err := to.probe(t.Context(), corev1.ProbeHandler{GRPC: ask}); err != nil {
		t.Errorf("a gRPC service: %v", err)
	}
	ill := "ill"
	ask.Service = &ill
	if _, err := to.probe(t.Context(), corev1.ProbeHandler{GRPC: ask}); err == nil || !strings.Contains(err.Error(), "NOT_SERVING") {
		t.Errorf("a gRPC service that does not serve: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := to.probe(ctx, corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(none.IntValue())}}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a gRPC service that is not there: %v", err)
	}
}

// A probe that is redirected to another host has its answer, and people are told.
func TestARedirectToAnotherHostIsDoubtful(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
	}))
	defer server.Close()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	to := target{ip: host, container: &corev1.Container{}}
	for name, want := range map[string]string{
		"":   "Probe terminated redirects, Response body: <a href=\"http://192.0.2.1/\">Found</a>.\n\n",
		host: "Probe terminated redirects", // what is not the pod's is not shown
	} {
		doubt, err := to.probe(t.Context(), corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: name, Port: intstr.Parse(port)}})
		if err != nil || doubt != want {
			t.Errorf("host %q: %q, %v", name, doubt, err)
		}
	}
}

func TestHTTPHooks(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization")+r.Header.Get("X"))
		http.Error(w, "no", http.StatusNotFound)
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	to := target{ip: host, container: &corev1.Container{}}
	hook := &corev1.HTTPGetAction{Port: intstr.Parse(port), HTTPHeaders: []corev1.HTTPHeader{
		{Name: "authorization", Value: "secret"}, {Name: "X", Value: "x"},
	}}
	if doubt, err := to.hook(t.Context(), &corev1.LifecycleHandler{HTTPGet: hook}); doubt != "" || err != nil {
		t.Errorf("the status of the answer matters: %q, %v", doubt, err)
	}
	hook.Scheme = corev1.URISchemeHTTPS
	want := "request to HTTPS lifecycle hook " + address + " got HTTP response, retry with HTTP succeeded"
	if doubt, err := to.hook(t.Context(), &corev1.LifecycleHandler{HTTPGet: hook}); doubt != want || err != nil {
		t.Errorf("HTTPS of a server without it: %q, %v", doubt, err)
	}
	if want := []string{"secretx", "x"}; !slices.Equal(asked, want) { // no credentials without TLS
		t.Errorf("asked with %q", asked)
	}
	if _, err := to.probe(t.Context(), corev1.ProbeHandler{HTTPGet: hook}); err == nil {
		t.Error("a probe falls back as a hook does")
	}
}

// serveHTTP2 serves HTTP/1.1 and HTTP/2 without TLS, at a port of a target.
func serveHTTP2(t *testing.T, handler http.HandlerFunc) (to target, port string) {
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return target{ip: host, container: &corev1.Container{}}, port
}

// A container that sends headers without end fails its probe, and takes no memory.
func TestProbesOfLongHeaders(t *testing.T) {
	to, port := serveHTTP2(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 8000 {
			w.Header().Set(fmt.Sprint("a", i), "")
		}
	})
	one, two := corev1.HTTPProtocolHTTP1, corev1.HTTPProtocolHTTP2
	for _, protocol := range []*corev1.HTTPProtocol{nil, &one, &two} {
		ask := &corev1.HTTPGetAction{Port: intstr.Parse(port), Protocol: protocol}
		if _, err := to.probe(t.Context(), corev1.ProbeHandler{HTTPGet: ask}); err == nil {
			t.Errorf("it succeeds with %v", ptr.Deref(protocol, "the default"))
		}
	}
}

func TestHTTP2Probes(t *testing.T) {
	to, port := serveHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			http.Error(w, "HTTP/2 only", http.StatusUpgradeRequired)
		}
	})
	ask := &corev1.HTTPGetAction{Port: intstr.Parse(port)}
	if _, err := to.probe(t.Context(), corev1.ProbeHandler{HTTPGet: ask}); err == nil || !strings.Contains(err.Error(), "426") {
		t.Errorf("with HTTP/1.1: %v", err)
	}
	two := corev1.HTTPProtocolHTTP2
	ask.Protocol = &two
	if _, err := to.probe(t.Context(), corev1.ProbeHandler{HTTPGet: ask}); err != nil {
		t.Errorf("with HTTP/2: %v", err)
	}
}
