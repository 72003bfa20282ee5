package image

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
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
		"fd20:ce::254": false, "168.63.129.16": false, "100.100.100.200": false, "192.0.0.192": false,
		"224.0.0.1": false, "239.1.1.1": false, "ff02::1": false, "ff0e::1": false, "255.255.255.255": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::7f00:1": false, "64:ff9b::c000:202": true,
		"2002:7f00:1::1": false, "2002:a9fe:a9fe::": false, "2002:c000:202::1": true,
		"192.0.2.1": false, "::ffff:192.0.2.1": false, "2001:db8::1": false, "64:ff9b::c000:201": false,
	} {
		if err := d.allow(netip.MustParseAddr(at), byRegistry); (err == nil) != want || err != nil && !errors.Is(err, errElsewhere) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := d.hosts(func(string) ([]docker.RegistryHost, error) {
		return []docker.RegistryHost{
			{Scheme: "https", Host: "Registry.example"}, {Scheme: "http", Host: "127.0.0.1:5000"},
			{Scheme: "https", Host: "[::1]:5001"},
		}, nil
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
	if d.namerOf("registry.example:80") != byRegistry || d.namerOf("registry.example:443") == byRegistry {
		t.Errorf("named are %v", d.named)
	}
}

// TestRegistriesOfTheLink: an image may name a registry on this machine, but only the administrator one that answers this machine as
// no other. A hosts.toml for all registries says nothing of one that the image names.
func TestRegistriesOfTheLink(t *testing.T) {
	d := newDestinations()
	for at, want := range map[string]bool{
		"192.0.2.2": true, "127.0.0.1": true, "::1": true, "0.0.0.0": true, "10.0.0.1": true, "fd12::1": true,
		"169.254.169.254": false, "169.254.0.1": false, "fe80::1": false, "fe80::1%lo": false, "::ffff:169.254.169.254": false,
		"64:ff9b::a9fe:a9fe": false, "2002:a9fe:a9fe::": false, "fd00:ec2::254": false, "100.100.100.200": false,
	} {
		if err := d.allow(netip.MustParseAddr(at), byImage); (err == nil) != want || err != nil && !errors.Is(err, errLinkLocal) {
			t.Errorf("%s: %v", at, err)
		}
	}
	for _, c := range []struct {
		name, dir string
		want      bool
	}{
		{"without a directory", "", false},
		{"its own directory", "169.254.1.1_5000_", true},
		{"its own directory, named as it is", "169.254.1.1:5000", true},
		{"the directory for all others", "_default", false},
		{"another one's directory", "169.254.1.1_5001_", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if c.dir != "" {
				const toml = "[host.\"http://mirror.example\"]\n"
				if err := os.Mkdir(filepath.Join(root, c.dir), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, c.dir, "hosts.toml"), []byte(toml), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			d := newDestinations()
			find := config.HostOptions{HostDir: d.hostDir(config.HostDirFromRoot(root))}
			hosts, err := d.hosts(config.ConfigureHosts(t.Context(), find))("169.254.1.1:5000")
			if err != nil || hosts[len(hosts)-1].Host != "169.254.1.1:5000" {
				t.Fatalf("%+v, %v", hosts, err)
			}
			if err := d.check(&url.URL{Scheme: "https", Host: "169.254.1.1:5000"}); (err == nil) != c.want {
				t.Errorf("a request: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // nobody is there
			defer cancel()
			conn, err := d.dial(net.Dialer{})(ctx, "tcp", "169.254.1.1:5000")
			if err == nil {
				conn.Close()
			}
			if errors.Is(err, errLinkLocal) == c.want {
				t.Errorf("a connection: %v", err)
			}
			if len(hosts) > 1 && d.namerOf("mirror.example:80") != byAdministrator {
				t.Error("the mirror is not the administrator's")
			}
		})
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
