package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// atAddresses has a server at one address of each pod, which says whose it is.
type atAddresses struct {
	fakeContainers
	t *testing.T
}

func (a atAddresses) DialAddress(_ context.Context, pod *corev1.Pod, at netip.AddrPort) (net.Conn, error) {
	if pod.Status.PodIP != at.Addr().String() || at.Port() != 8080 {
		return nil, fmt.Errorf("%s of %s: connection refused", at, pod.Name)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/leave" {
			w.Header().Set("Location", "http://"+at.String()+"/there")
			w.WriteHeader(http.StatusFound)
		}
		fmt.Fprintf(w, "%s %s %s %q", pod.Name, r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"))
	}))
	a.t.Cleanup(server.Close)
	return net.Dial("tcp4", server.Listener.Addr().String())
}

func TestServiceProxy(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Containers = atAddresses{t: t} })
	const in = "/api/v1/namespaces/default/"
	for i, name := range []string{"ready", "unready", "other"} {
		labels := `{"app": "web"}`
		if name == "other" {
			labels = `{"app": "other"}`
		}
		ts.mustDo(t, http.MethodPost, in+"pods", `{"metadata": {"name": "`+name+`", "labels": `+labels+`}, "spec": {"containers": [
			{"name": "c", "image": "i", "ports": [{"name": "serve", "containerPort": 8080}]}]}}`, 201)
		ts.bind(t, name, "node")
		pod, err := ts.client(t).CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ready := corev1.ConditionTrue
		if name == "unready" {
			ready = corev1.ConditionFalse
		}
		pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, fmt.Sprintf("10.64.0.%d", i+2)
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		if _, err := ts.client(t).CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, spec := range map[string]string{
		"web":    `{"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "serve"}]}`,
		"many":   `{"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "more", "port": 81, "targetPort": 8081}, {"name": "dns", "port": 53, "protocol": "UDP"}]}`,
		"nobody": `{"selector": {"app": "nobody"}, "ports": [{"port": 80}]}`,
		"told":   `{"ports": [{"port": 80}]}`,
		"out":    `{"type": "ExternalName", "externalName": "example.com", "ports": [{"port": 80}]}`,
	} {
		ts.mustDo(t, http.MethodPost, in+"services", `{"metadata": {"name": "`+name+`"}, "spec": `+spec+`}`, 201)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	ask := func(method, path string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(method, "https://"+ts.tls.String()+in+"services"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+ts.adminToken)
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(said)
	}
	for _, c := range []struct {
		name, method, path string
		code               int
		says               string
	}{
		{"the only port", "GET", "/web/proxy/a/b?c=d", 200, `ready GET /a/b?c=d ""`},
		{"a port by its number", "POST", "/web:80/proxy/", 200, `ready POST / ""`},
		{"a port by its name", "GET", "/many:http/proxy/", 200, "ready GET /"},
		{"with a scheme", "GET", "/http:web:http/proxy/", 200, "ready GET /"},
		{"one of several ports", "GET", "/many/proxy/", 503, `no service port \"\" found for service \"many\"`},
		{"the port of the pod", "GET", "/web:8080/proxy/", 503, `no service port \"8080\" found for service \"web\"`},
		{"a port that is not TCP", "GET", "/many:dns/proxy/", 503, `no service port \"dns\" found`},
		{"a port that refuses", "GET", "/many:more/proxy/", 503, "error trying to reach service: 10.64.0.2:8081 of ready: connection refused"},
		{"no pods", "GET", "/nobody/proxy/", 503, `no endpoints available for service \"nobody\"`},
		{"endpoints that clients write", "GET", "/told/proxy/", 503, `service \"told\" selects no pods`},
		{"a name elsewhere", "GET", "/out/proxy/", 503, `service \"out\" selects no pods`},
		{"no such Service", "GET", "/nosuch/proxy/", 404, `services \"nosuch\" not found`},
		{"no such scheme", "GET", "/ftp:web:80/proxy/", 400, "is not [SCHEME:]NAME[:PORT]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if answer, said := ask(c.method, c.path); answer.StatusCode != c.code || !strings.Contains(said, c.says) {
				t.Errorf("%d %s", answer.StatusCode, said)
			}
		})
	}
	if answer, _ := ask("GET", "/web/proxy/leave"); answer.Header.Get("Location") != in+"services/web/proxy/there" {
		t.Errorf("a redirect leads to %q", answer.Header.Get("Location"))
	}
	for role, may := range map[string]bool{"role=read": false, "role=submit&namespace=default": true} {
		c := ts.limited(t, role)
		if _, err := proxyGet(c, "web"); (err == nil) != may {
			t.Errorf("%s: %v", role, err)
		}
	}
}

// proxyGet asks as kubectl and client-go do.
func proxyGet(c *kubernetes.Clientset, service string) ([]byte, error) {
	return c.CoreV1().Services("default").ProxyGet("http", service, "http", "/", nil).DoRaw(context.Background())
}
