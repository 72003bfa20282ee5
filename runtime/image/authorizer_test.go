package image

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"golang.org/x/sync/errgroup"
)

// TestTokens: requests that want the same token at once get it, and nothing but the race detector knows better.
func TestTokens(t *testing.T) {
	realm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(10 * time.Millisecond)
		fmt.Fprint(w, `{"token":"x","expires_in":300}`)
	}))
	defer realm.Close()
	hosts, err := newDestinations().hosts(func(string) ([]docker.RegistryHost, error) {
		return []docker.RegistryHost{{Scheme: "http", Host: "registry.example", Authorizer: docker.NewDockerAuthorizer()}}, nil
	})("registry.example")
	if err != nil {
		t.Fatal(err)
	}
	by := hosts[0].Authorizer
	request := func() *http.Request {
		return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://registry.example/v2/x/blobs/y", nil)
	}
	refusal := &http.Response{
		StatusCode: http.StatusUnauthorized, Request: request(),
		Header: http.Header{"Www-Authenticate": {fmt.Sprintf("Bearer realm=%q,service=\"x\",scope=\"repository:x:pull\"", realm.URL)}},
	}
	if err := by.AddResponses(t.Context(), []*http.Response{refusal}); err != nil {
		t.Fatal(err)
	}
	var all errgroup.Group
	for range 8 {
		all.Go(func() error {
			r := request()
			if err := by.Authorize(t.Context(), r); err != nil || r.Header.Get("Authorization") != "Bearer x" {
				return fmt.Errorf("%v, %v", r.Header, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}

// A registry that is asked by TLS does not have its tokens fetched without.
func TestRealmsAreAsSafeAsTheirRegistry(t *testing.T) {
	for _, c := range []struct {
		registry, realm string
		want            bool
	}{
		{"https://a.example/v2/", "https://auth.example/token", true}, {"https://a.example/v2/", "http://auth.example/token", false},
		{"https://a.example/v2/", "//auth.example/token", false}, {"http://localhost:5000/v2/", "http://auth.example/token", true},
	} {
		u, err := url.Parse(c.registry)
		if err != nil {
			t.Fatal(err)
		}
		resp := &http.Response{
			StatusCode: http.StatusUnauthorized, Request: &http.Request{URL: u},
			Header: http.Header{"Www-Authenticate": {`Bearer realm="` + c.realm + `",service="s",scope="x"`}},
		}
		err = authorizer{Authorizer: docker.NewDockerAuthorizer()}.AddResponses(t.Context(), []*http.Response{resp})
		if (err == nil) != c.want {
			t.Errorf("%s names %s: %v", c.registry, c.realm, err)
		}
	}
}
