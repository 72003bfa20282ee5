package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/jobd/jobd/api/why"
)

// faulty panics wherever the server asks it for something.
type faulty struct{ fakeContainers }

func (faulty) Open(_ context.Context, _ *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	if o.Timestamps {
		panic("fault of the log")
	}
	return io.NopCloser(&faultyReader{}), nil
}

func (faulty) Explain(context.Context, why.Reference, func(resource, namespace string) bool) (*why.Explanation, error) {
	panic(errors.New("fault of the explanation"))
}

func (faulty) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetName() == "denied" {
		panic("fault of the authorizer")
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// faultyReader panics once a part of the log has been sent.
type faultyReader struct{ reads int }

func (r *faultyReader) Read(b []byte) (int, error) {
	if r.reads++; r.reads > 1 {
		panic("fault within the log")
	}
	return copy(b, strings.Repeat("x", 100)), nil
}

func TestPanicsAreAnswered(t *testing.T) {
	f := faulty{}
	ts := startServer(t, func(c *Config) {
		c.Logs, c.Explainer, c.Authorizer = f, f, f
		c.ServiceAddresses = netip.MustParsePrefix("10.96.0.0/24")
		c.PortTaken = func(corev1.Protocol, uint16) error { panic("fault of the port") }
	})
	registry := prometheus.NewRegistry()
	unregister, err := ts.Register(registry)
	if err != nil {
		t.Fatal(err)
	}
	defer unregister()
	const in = "/api/v1/namespaces/default/"
	mustMake(t, ts.client(t).CoreV1().Pods("default"), newPod("p", "c"))
	ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	token := ts.token(t, ts.account(t, "reader", "read"), nil).Status.Token
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	h2 := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	defer h2.CloseIdleConnections()
	ask := func(through *http.Transport, token, method, path, body string) (*http.Response, string, error) {
		t.Helper()
		r, err := http.NewRequest(method, "https://"+ts.tls.String()+in+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		answer, err := through.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		return answer, string(said), err
	}
	count := uint64(0)
	for _, c := range []struct{ name, token, method, path, body, fault string }{
		{"a handler", ts.adminToken, "GET", "pods/p/why", "", "fault of the explanation"},
		{"one that lasts as long as its client likes", ts.adminToken, "GET", "pods/p/log?timestamps=1", "", "fault of the log"},
		{"a creation, which has a goroutine of its own", ts.adminToken, "POST", "services",
			`{"metadata": {"name": "s"}, "spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [{"port": 80, "nodePort": 30100}]}}`, "fault of the port"},
		{"what comes before the handler", token, "DELETE", "configmaps/denied", "", "fault of the authorizer"},
	} {
		for name, through := range map[string]*http.Transport{"HTTP/1": transport, "HTTP/2": h2} {
			t.Run(c.name+" by "+name, func(t *testing.T) {
				answer, said, err := ask(through, c.token, c.method, c.path, c.body)
				count++
				var status metav1.Status
				if jsonErr := json.Unmarshal([]byte(said), &status); err != nil || jsonErr != nil || answer.StatusCode != 500 ||
					status.Reason != metav1.StatusReasonInternalError {
					t.Fatalf("%v %d %s", err, answer.StatusCode, said)
				}
				id := answer.Header.Get("Audit-Id")
				log := ts.log.String()
				if id == "" || !strings.HasSuffix(status.Message, id) || strings.Contains(said, c.fault) || strings.Contains(said, "goroutine") {
					t.Errorf("id %q: %s", id, said)
				}
				if strings.Count(log, id) != 1 || !strings.Contains(log, c.fault) {
					t.Errorf("the log: %s", log)
				}
			})
		}
	}
	t.Run("an answer that has begun", func(t *testing.T) {
		for _, through := range []*http.Transport{transport, h2} {
			if _, said, err := ask(through, ts.adminToken, "GET", "pods/p/log", ""); err == nil {
				t.Errorf("the client takes a part for the whole: %s", said)
			}
			count++
		}
	})
	if got := ts.panics.count.Load(); got != count {
		t.Errorf("%d were counted, there were %d", got, count)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "jobd_api_panics_total" && uint64(f.GetMetric()[0].GetCounter().GetValue()) == count {
			return
		}
	}
	t.Error("no metric shows it")
}

// A request that panics can be sent again and again.
func TestStacksInTheLogAreBounded(t *testing.T) {
	var log lockedBuffer
	p := newPanics(slog.New(slog.NewTextHandler(&log, nil)))
	stack := []byte(strings.Repeat("y", 1<<20))
	for range 200 {
		p.fault("id", "boom\ngoroutine 1 [running]:\n"+strings.Repeat("z", 1<<20), stack)
	}
	said := log.String()
	if n := strings.Count(said, "goroutine 1"); n != stackBurst || strings.Contains(said, "yyy") || len(said) > 2*stackBurst*maxStack {
		t.Errorf("%d stacks in %d bytes", n, len(said))
	}
	if strings.Count(said, "panic=boom") != 200 {
		t.Error("not all are logged")
	}
}
