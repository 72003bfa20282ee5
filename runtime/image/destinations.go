package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/auth"
	"github.com/containerd/errdefs"
)

// destinations are where the requests of one pull may go. Whoever names an image chooses the registry, which chooses where else
// the daemon asks, by redirects and by the realm for tokens: to this machine itself and to what only this machine is told
// (metadata of a cloud) that leads only if the registry itself is there, or if the administrator says so in a hosts.toml.
type destinations struct {
	mu      sync.Mutex
	named   map[string]bool // host:port of the registry, of its mirrors and of other hosts of its hosts.toml
	proxies map[string]bool // host:port of proxies, which the environment of the daemon names

	// own returns the addresses of this machine.
	own func() ([]netip.Addr, error)
}

func newDestinations() *destinations {
	return &destinations{named: map[string]bool{}, proxies: map[string]bool{}, own: ownAddresses}
}

func ownAddresses() (own []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr().Unmap())
		}
	}
	return own, nil
}

// hosts notes the hosts of a registry.
func (d *destinations) hosts(of docker.RegistryHosts) docker.RegistryHosts {
	return func(name string) ([]docker.RegistryHost, error) {
		hosts, err := of(name)
		d.mu.Lock()
		defer d.mu.Unlock()
		for i, h := range hosts {
			d.named[hostPort(&url.URL{Scheme: h.Scheme, Host: h.Host})] = true
			hosts[i].Authorizer = authorizer{h.Authorizer}
		}
		return hosts, err
	}
}

// hostPort returns the host of an address and its port, as it is dialled.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func (d *destinations) isNamed(at string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.named[at]
}

// proxy notes the proxies that are used. What a proxy resolves and reaches is its own affair.
func (d *destinations) proxy(of func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	if of == nil {
		return nil
	}
	return func(r *http.Request) (*url.URL, error) {
		u, err := of(r)
		if u != nil {
			port := u.Port()
			if port == "" && strings.HasPrefix(u.Scheme, "socks5") {
				port = "1080"
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			if port != "" {
				d.proxies[net.JoinHostPort(strings.ToLower(u.Hostname()), port)] = true
			} else {
				d.proxies[hostPort(u)] = true
			}
		}
		return u, err
	}
}

// check refuses a request to an address that it names itself, which a proxy would reach for it.
func (d *destinations) check(u *url.URL) error {
	at, err := netip.ParseAddr(u.Hostname())
	if err != nil || d.isNamed(hostPort(u)) {
		return nil
	}
	return d.allow(at)
}

// dial is the DialContext of a transport. Addresses are looked at when they are connected to, whatever a name has meant before.
func (d *destinations) dial(dialer net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to := dialer
		d.mu.Lock()
		trusted := d.named[strings.ToLower(address)] || d.proxies[strings.ToLower(address)]
		d.mu.Unlock()
		if !trusted {
			to.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
				at, err := netip.ParseAddrPort(address)
				if err != nil {
					return err
				}
				return d.allow(at.Addr())
			}
		}
		return to.DialContext(ctx, network, address)
	}
}

// errElsewhere is the error of a request that leads where none may.
var errElsewhere = errors.New("the registry leads to an address of this machine or to a link-local one, which only a hosts.toml can allow")

// allow fails if a registry may not lead to an address.
func (d *destinations) allow(at netip.Addr) error {
	own, err := d.own()
	if err != nil {
		return err
	}
	for _, a := range means(at) {
		if !isElsewhere(a) {
			return fmt.Errorf("%w: %w", errElsewhere, errdefs.ErrPermissionDenied)
		}
		for _, mine := range own {
			if a == mine {
				return fmt.Errorf("%w: %w", errElsewhere, errdefs.ErrPermissionDenied)
			}
		}
	}
	return nil
}

// metadata6 is where a cloud has its metadata beside 169.254.169.254.
var metadata6 = netip.MustParseAddr("fd00:ec2::254")

// isElsewhere reports whether an address means the same for every machine of a network.
func isElsewhere(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255}) && a != metadata6 && !thisNetwork.Contains(a)
}

// thisNetwork are addresses of which Linux takes 0.0.0.0 for itself.
var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")

// Networks whose IPv6 addresses stand for the IPv4 addresses in them.
var embedding = []struct {
	network netip.Prefix
	at      int // the first byte of the address
}{
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("64:ff9b::/96"), 12},   // RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12}, // RFC 8215
	{netip.MustParsePrefix("2002::/16"), 2},       // 6to4
}

// means returns the addresses that an address may stand for.
func means(a netip.Addr) []netip.Addr {
	a = a.Unmap().WithZone("")
	all := []netip.Addr{a}
	for _, e := range embedding {
		if bytes := a.As16(); a.Is6() && e.network.Contains(a) {
			all = append(all, netip.AddrFrom4([4]byte(bytes[e.at:e.at+4])))
		}
	}
	return all
}

// authorizer lets a registry that is asked by TLS name only realms that are.
type authorizer struct{ docker.Authorizer }

func (a authorizer) AddResponses(ctx context.Context, responses []*http.Response) error {
	last := responses[len(responses)-1]
	for _, c := range auth.ParseAuthHeader(last.Header) {
		realm, err := url.Parse(c.Parameters["realm"])
		if c.Scheme == auth.BearerAuth && last.Request.URL.Scheme == "https" && (err != nil || realm.Scheme != "https") {
			return fmt.Errorf("the registry wants a token from %q, which is not https as the registry itself is: %w",
				c.Parameters["realm"], docker.ErrInvalidAuthorization)
		}
	}
	return a.Authorizer.AddResponses(ctx, responses)
}
