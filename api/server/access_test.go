package server

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jobd/jobd/api/listen"
	"github.com/jobd/jobd/api/roles"
)

func TestWhoMayDoWhatOverTLS(t *testing.T) {
	readers := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "reader" && a.IsReadOnly() {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	ts := startServer(t, func(c *Config) {
		c.Authorizer = readers
	})
	stranger, err := listen.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const jobs, metrics, livez, apis, profile = "/apis/batch/v1/jobs", "/metrics", "/livez", "/apis", "/debug/pprof/"
	for _, tc := range []struct {
		name   string
		token  string
		cert   *tls.Certificate
		answer map[string]int
	}{
		{
			name:   "nobody sees but that it lives",
			answer: map[string]int{jobs: 401, metrics: 401, livez: 200, "/readyz": 200, "/version": 200, apis: 401, profile: 401, "/jobd/v1/images": 401},
		},
		{
			name: "the administrator's token", token: ts.adminToken,
			answer: map[string]int{jobs: 200, metrics: 200, livez: 200, apis: 200, profile: 404, "/jobd/v1/images": 404, "/jobd/v1/kubeconfig": 404},
		},
		{name: "a wrong token is refused everywhere", token: "wrong", answer: map[string]int{jobs: 401, livez: 401}},
		{
			name: "an administrator's certificate", cert: issue(t, ts.authority, "me", roles.AdminGroup),
			answer: map[string]int{jobs: 200, metrics: 200, livez: 200},
		},
		{
			name: "a certificate that gives no right", cert: issue(t, ts.authority, "other"),
			answer: map[string]int{jobs: 403, metrics: 403, livez: 200, apis: 200},
		},
		{name: "a certificate of another authority", cert: issue(t, stranger, "me", roles.AdminGroup), answer: map[string]int{jobs: 401, livez: 401}},
		{name: "a certificate that has expired", cert: issueFor(t, ts.authority, -time.Minute, "me", roles.AdminGroup), answer: map[string]int{jobs: 401}},
		{name: "rights from the configuration", cert: issue(t, ts.authority, "reader"), answer: map[string]int{jobs: 200, metrics: 200}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := &tls.Config{RootCAs: ts.roots}
			if tc.cert != nil {
				config.Certificates = []tls.Certificate{*tc.cert}
			}
			tr := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
			defer tr.CloseIdleConnections()
			for path, want := range tc.answer {
				r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+ts.tls.String()+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				if tc.token != "" {
					r.Header.Set("Authorization", "Bearer "+tc.token)
				}
				resp, err := tr.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != want {
					t.Errorf("%s: %d, not %d", path, resp.StatusCode, want)
				}
				if resp.ProtoMajor != 2 {
					t.Errorf("%s is not HTTP/2", resp.Proto)
				}
			}
		})
	}
	t.Run("a reader may not write", func(t *testing.T) {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ts.roots, Certificates: []tls.Certificate{*issue(t, ts.authority, "reader")}}}
		defer tr.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), "DELETE", "https://"+ts.tls.String()+"/apis/batch/v1/namespaces/default/jobs/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 403 {
			t.Error(resp.Status)
		}
	})
}

func issue(t *testing.T, a *listen.Authority, name string, groups ...string) *tls.Certificate {
	t.Helper()
	return issueFor(t, a, 24*time.Hour, name, groups...)
}

// issueFor makes a certificate with so much of its life left.
func issueFor(t *testing.T, a *listen.Authority, life time.Duration, name string, groups ...string) *tls.Certificate {
	t.Helper()
	cert, key, err := a.IssueClient(name, groups, life)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

func TestKubeconfigIsForItsOwnerAndWorks(t *testing.T) {
	ts := startServer(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := ts.authority.WriteKubeconfig(path, ts.tls); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: %v", info.Mode(), err)
	}
	if _, err := clientcmd.LoadFromFile(path); err != nil {
		t.Error(err)
	}
	code, text := ts.do(t, "GET", kubeconfigPath, "", "")
	want, err := os.ReadFile(path)
	if err != nil || code != 200 || text != string(want) {
		t.Errorf("the socket gives another one: %d %v", code, err)
	}
}
