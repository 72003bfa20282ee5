package image

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
)

// TestDestinations says to which addresses a registry may lead.
func TestDestinations(t *testing.T) {
	d := newDestinations()
	d.own = func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}, nil
	}
	for at, want := range map[string]bool{
		"192.0.2.2": true, "10.0.0.1": true, "172.16.0.1": true, "100.64.0.1": true, "2001:db8::2": true, "fd12::1": true,
		"127.0.0.1": false, "127.255.255.254": false, "::1": false, "::ffff:127.0.0.1": false, "::127.0.0.1": false,
		"0.0.0.0": false, "0.1.2.3": false, "::": false, "::ffff:0.0.0.0": false,
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "fe80::1": false, "fe80::1%lo": false, "fd00:ec2::254": false,
		"224.0.0.1": false, "239.1.1.1": false, "ff02::1": false, "ff0e::1": false, "255.255.255.255": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::7f00:1": false, "64:ff9b::c000:202": true,
		"2002:7f00:1::1": false, "2002:a9fe:a9fe::": false, "2002:c000:202::1": true,
		"192.0.2.1": false, "::ffff:192.0.2.1": false, "2001:db8::1": false, "64:ff9b::c000:201": false,
	} {
		if err := d.allow(netip.MustParseAddr(at)); (err == nil) != want || err != nil && !errors.Is(err, errElsewhere) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := d.hosts(func(string) ([]docker.RegistryHost, error) {
		return []docker.RegistryHost{{Scheme: "https", Host: "Registry.example"}, {Scheme: "http", Host: "127.0.0.1:5000"}, {Scheme: "https", Host: "[::1]:5001"}}, nil
	})("registry.example"); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{
		"http://127.0.0.1:5000/x": true, "https://[::1]:5001/": true, "http://127.0.0.1:5001/x": false, "http://127.0.0.1/x": false,
		"http://[::1%25lo]:80/": false, "http://169.254.169.254/latest": false, "https://0.0.0.0": false,
		"https://registry.example/": true, "https://other.example/": true, // where a name leads is looked at later
	} {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.check(u); (err == nil) != want {
			t.Errorf("%s: %v", at, err)
		}
	}
	// The same name at another port may lead somewhere else.
	if d.isNamed("registry.example:80") || !d.isNamed("registry.example:443") {
		t.Errorf("named are %v", d.named)
	}
}

// A proxy of the environment may be anywhere, but no registry leads to it.
func TestProxiesOfPulls(t *testing.T) {
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.String() }))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{Proxy: func(r *http.Request) (*url.URL, error) {
		if strings.HasPrefix(r.URL.Hostname(), "127.") || r.URL.Hostname() == "localhost" {
			return nil, nil // as ProxyFromEnvironment does
		}
		return at, nil
	}}
	i := &Images{}
	tr := i.transport(base, &transfer{report: func(string) {}}, newDestinations())
	for _, c := range []struct {
		url  string
		want bool
	}{
		{"http://registry.example/v2/", true}, {"http://169.254.169.254/latest", false}, {proxy.URL + "/x", false},
		{strings.Replace(proxy.URL, "127.0.0.1", "localhost", 1) + "/x", false},
	} {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != c.want || (len(asked) > 0) != c.want {
			t.Errorf("%s: %v, the proxy was asked %d times", c.url, err, len(asked))
		}
		for len(asked) > 0 {
			<-asked
		}
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
		err = authorizer{docker.NewDockerAuthorizer()}.AddResponses(t.Context(), []*http.Response{resp})
		if (err == nil) != c.want {
			t.Errorf("%s names %s: %v", c.registry, c.realm, err)
		}
	}
}
