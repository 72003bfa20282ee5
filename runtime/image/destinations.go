package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"golang.org/x/sync/semaphore"
)

// destinations are where the requests of one pull may go. Whoever names an image chooses the registry, which chooses where else
// the daemon asks, by redirects and by the realm for tokens: to this machine itself that leads only if the registry itself is
// there, and to what only this machine is told (metadata of a cloud) only if the administrator says so in a hosts.toml.
type destinations struct {
	mu         sync.Mutex
	named      map[string]namer // by the host:port of the registry, of its mirrors and of other hosts of its hosts.toml
	configured map[string]bool  // registries that have a directory of their own in HostsDir
	proxies    map[string]bool  // host:port of proxies, which the environment of the daemon names

	asking *semaphore.Weighted // held by who asks for a token

	// own returns the addresses of this machine.
	own func() ([]netip.Addr, error)
}

// namer is who has named a host.
type namer int

const (
	byRegistry      namer = iota // by what it has answered
	byImage                      // it is the registry itself
	byAdministrator              // a hosts.toml names it
)

func newDestinations() *destinations {
	return &destinations{
		named: map[string]namer{}, configured: map[string]bool{}, proxies: map[string]bool{}, asking: semaphore.NewWeighted(1), own: ownAddresses,
	}
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

// hostDir notes the registries for which the administrator has written something. The directory for all others does not count:
// whoever wrote it had none of them in mind.
func (d *destinations) hostDir(find func(name string) (string, error)) func(name string) (string, error) {
	return func(name string) (string, error) {
		dir, err := find(name)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.configured[name] = err == nil && dir != "" && filepath.Base(dir) != "_default"
		return dir, err
	}
}

// hosts notes the hosts of a registry.
func (d *destinations) hosts(of docker.RegistryHosts) docker.RegistryHosts {
	return func(name string) ([]docker.RegistryHost, error) {
		hosts, err := of(name)
		d.mu.Lock()
		defer d.mu.Unlock()
		for i, h := range hosts {
			by := byAdministrator
			if !d.configured[name] && strings.EqualFold(h.Host, name) {
				by = byImage
			}
			d.named[hostPort(&url.URL{Scheme: h.Scheme, Host: h.Host})] = by
			hosts[i].Authorizer = authorizer{h.Authorizer, d.asking}
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

// namerOf returns who has named a host:port.
func (d *destinations) namerOf(at string) namer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.named[strings.ToLower(at)]
}

// isProxy reports whether a host:port is that of a proxy.
func (d *destinations) isProxy(at string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proxies[strings.ToLower(at)]
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
	if err != nil {
		return nil
	}
	return d.allow(at, d.namerOf(hostPort(u)))
}

// dial is the DialContext of a transport. Addresses are looked at when they are connected to, whatever a name has meant before.
func (d *destinations) dial(dialer net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		by, to := d.namerOf(address), dialer
		if d.isProxy(address) {
			by = byAdministrator
		}
		to.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return d.allow(at.Addr(), by)
		}
		return to.DialContext(ctx, network, address)
	}
}

// Errors of requests that lead where none may.
var (
	errElsewhere = errors.New("the registry leads to an address of this machine or to a link-local one, which only a hosts.toml can allow")
	errLinkLocal = errors.New("the registry is at a link-local address or where clouds have their metadata, which only a hosts.toml can allow")
)

// allow fails if a pull may not lead to an address that somebody has named.
func (d *destinations) allow(at netip.Addr, by namer) error {
	if by == byAdministrator {
		return nil
	}
	own, err := d.own()
	if err != nil {
		return err
	}
	for _, a := range means(at) {
		switch {
		case by == byImage && isOfThisLink(a):
			return fmt.Errorf("%w: %w", errLinkLocal, errdefs.ErrPermissionDenied)
		case by == byRegistry && (!isElsewhere(a) || slices.Contains(own, a)):
			return fmt.Errorf("%w: %w", errElsewhere, errdefs.ErrPermissionDenied)
		}
	}
	return nil
}

// cloudMetadata are the addresses at which clouds have their metadata beside 169.254.169.254 and the like.
var cloudMetadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd20:ce::254"),    // Google
	netip.MustParseAddr("168.63.129.16"),   // Azure's WireServer
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("192.0.0.192"),     // Oracle
}

// isOfThisLink reports whether what is at an address speaks to this machine as no other one.
func isOfThisLink(a netip.Addr) bool {
	return a.IsLinkLocalUnicast() || slices.Contains(cloudMetadata, a)
}

// isElsewhere reports whether an address means the same for every machine of a network.
func isElsewhere(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && !isOfThisLink(a) &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255}) && !thisNetwork.Contains(a)
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
