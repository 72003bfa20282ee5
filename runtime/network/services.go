package network

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

const (
	// servicesSuffix makes the name of the nft table of Services from that of the bridge.
	servicesSuffix = "-services"
	// afterHostPorts is the priority of chains that see what the ports of pods (hostPort) have left.
	afterHostPorts = -99
	// icmpPortUnreachable is the code of an ICMP message (RFC 792).
	icmpPortUnreachable = 3
)

// ServicePort is a port of a Service, and where it leads.
type ServicePort struct {
	// Name is that of the Service and its port, and differs from that of every other port.
	Name string
	// Namespace is that of the Service. The clients of its ports are remembered together (Affinity): no more than the kernel
	// keeps in one set, 65535. Others get a random endpoint for each connection.
	Namespace string
	Protocol  corev1.Protocol
	// At is the virtual address and the port, which pods on the bridge and the host itself can reach.
	At netip.AddrPort
	// External are further addresses at which the port can be reached, from everywhere (ServiceSpec.ExternalIPs).
	External []netip.Addr
	// NodePort is a port of all addresses of the host; 0 for none.
	NodePort uint16
	// Endpoints are where connections lead, each with the same probability. Without any they are refused.
	Endpoints []netip.AddrPort
	// Affinity is for how long after its last connection a client is led to the same endpoint; 0: not at all.
	Affinity time.Duration
}

func (p ServicePort) equal(q ServicePort) bool {
	return p.Name == q.Name && p.Protocol == q.Protocol && p.At == q.At && slices.Equal(p.External, q.External) &&
		p.NodePort == q.NodePort && slices.Equal(p.Endpoints, q.Endpoints) && p.Affinity == q.Affinity
}

// services is the state of the nft table of Services.
type services struct {
	addresses netip.Prefix
	// wanted are what SetServices has been called with or, before that, the ports of an earlier run.
	wanted []ServicePort
	// nodePorts are the names of those that have a port of the host.
	nodePorts map[portNumber]string

	// writing is held while the table is changed, which may take the kernel long; Network.mu, which the start of every pod
	// needs, is not held meanwhile. It guards what follows, and is locked before Network.mu.
	writing sync.Mutex
	// applied is what the kernel has, and ports are what it was made of; nil if that is not known.
	applied *serviceRules
	ports   map[string]ServicePort // by name
}

// SetServices makes the kernel map the ports of Services to their endpoints. The rules change in one transaction and
// apply to new connections: those that are established stay. Endpoints at the gateway of the bridge are left out, since a
// port of the host would open to other machines what only pods may reach there. Without virtual addresses it does nothing.
func (n *Network) SetServices(ports []ServicePort) error {
	if !n.ServiceAddresses().IsValid() {
		return nil
	}
	wanted := slices.Clone(ports)
	for i, p := range wanted {
		if _, known := protocols[p.Protocol]; !known {
			return fmt.Errorf("network: services: protocol %q of %s is not known", p.Protocol, p.Name)
		}
		if atGateway := func(e netip.AddrPort) bool { return e.Addr() == n.bridge.address }; slices.ContainsFunc(p.Endpoints, atGateway) {
			wanted[i].Endpoints = slices.DeleteFunc(slices.Clone(p.Endpoints), atGateway)
		}
	}
	n.mu.Lock()
	n.services.want(wanted)
	n.mu.Unlock()
	return n.writeServices()
}

// known reports whether the table was written.
func (s *services) known() bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.applied != nil
}

// forget makes the table be written as a whole the next time, and reports whether it was written.
func (s *services) forget() (written bool) {
	s.writing.Lock()
	defer s.writing.Unlock()
	written, s.applied = s.applied != nil, nil
	return written
}

// want sets the ports that Services have.
func (s *services) want(ports []ServicePort) {
	s.wanted, s.nodePorts = ports, map[portNumber]string{}
	for _, p := range ports {
		if p.NodePort != 0 {
			s.nodePorts[portNumber{p.Protocol, p.NodePort}] = p.Name
		}
	}
}

// free fails if one of the ports of a pod is that of a Service.
func (s *services) free(ports []hostPort) error {
	for _, p := range ports {
		if name, taken := s.nodePorts[p.number()]; taken {
			return fmt.Errorf("%s is that of the Service %s: %w", p, name, errdefs.ErrAlreadyExists)
		}
	}
	return nil
}

// writeServices brings the nft table of Services up to date.
func (n *Network) writeServices() error {
	s := &n.services
	s.writing.Lock()
	defer s.writing.Unlock()
	n.mu.Lock()
	wanted, own, local := s.wanted, n.own(), n.bridge.localDestinations()
	n.mu.Unlock()
	now := compileServices(wanted, own)
	if err := n.bridge.writeServices(s.applied, now, s.addresses, local); err != nil {
		s.applied = nil
		return fmt.Errorf("network: services: %w", err)
	}
	s.applied = now
	before := s.ports
	s.ports = make(map[string]ServicePort, len(wanted))
	for _, p := range wanted {
		s.ports[p.Name] = p
	}
	if err := n.bridge.endDatagrams(changedPorts(before, s.ports)); err != nil {
		n.logger.Warn("cannot end UDP connections to former endpoints of Services", "error", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	loopback := len(s.nodePorts) > 0
	if loopback != n.bridge.nodePorts {
		n.bridge.nodePorts = loopback
		return n.routeLoopback()
	}
	return nil
}

// changedPorts returns the ports that are new or have changed, and those that are gone, without endpoints.
func changedPorts(before, now map[string]ServicePort) (changed []ServicePort) {
	for name, p := range now {
		if was, known := before[name]; !known || !p.equal(was) {
			changed = append(changed, p)
		}
	}
	for name, p := range before {
		if _, ok := now[name]; !ok {
			p.Endpoints = nil
			changed = append(changed, p)
		}
	}
	return changed
}

// localDestinations returns the expressions of rules that between them match every address of the host.
func (b *bridge) localDestinations() (out [][]expr.Any) {
	if b.listed == nil {
		here, _ := (*table)(nil).localByRoutes()
		return here.toHost
	}
	out = append(out, within(destinationOffset, loopbackAddresses))
	for _, a := range b.listed {
		out = append(out, within(destinationOffset, netip.PrefixFrom(a.Addr, a.BitLen())))
	}
	return out
}

// endDatagrams makes the kernel forget the UDP connections to ports of Services that lead elsewhere than to the
// endpoints: they last as long as somebody sends.
func (b *bridge) endDatagrams(changed []ServicePort) error {
	at, nodePorts := map[netip.AddrPort][]ServicePort{}, map[uint16][]ServicePort{}
	for _, p := range changed {
		if p.Protocol != corev1.ProtocolUDP {
			continue
		}
		at[p.At] = append(at[p.At], p)
		for _, a := range p.External {
			also := netip.AddrPortFrom(a, p.At.Port())
			at[also] = append(at[also], p)
		}
		if p.NodePort != 0 {
			nodePorts[p.NodePort] = append(nodePorts[p.NodePort], p)
		}
	}
	if len(at) == 0 {
		return nil
	}
	addresses, err := hostAddresses()
	if err != nil {
		return err
	}
	return forget(func(f *netlink.ConntrackFlow) bool {
		if f.Forward.Protocol != unix.IPPROTO_UDP {
			return false
		}
		to, ok := netip.AddrFromSlice(f.Forward.DstIP.To4())
		leads, leadsSomewhere := netip.AddrFromSlice(f.Reverse.SrcIP.To4())
		if !ok || !leadsSomewhere {
			return false
		}
		elsewhere := func(p ServicePort) bool {
			return !slices.Contains(p.Endpoints, netip.AddrPortFrom(leads, f.Reverse.SrcPort))
		}
		return slices.ContainsFunc(at[netip.AddrPortFrom(to, f.Forward.DstPort)], elsewhere) ||
			slices.ContainsFunc(nodePorts[f.Forward.DstPort], elsewhere) && isLocal(addresses, f.Forward.DstIP)
	})
}

// hasServices reports whether there is an nft table of Services.
func (b *bridge) hasServices() bool {
	conn, err := openNFT()
	if err != nil {
		return false
	}
	there, err := hasTable(conn, b.name+servicesSuffix)
	return err == nil && there
}

func hasTable(conn *nftables.Conn, name string) (bool, error) {
	all, err := conn.ListTablesOfFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return false, fmt.Errorf("nft tables: %w", err)
	}
	return slices.ContainsFunc(all, func(t *nftables.Table) bool { return t.Name == name }), nil
}

// ServiceAddresses returns the range of the virtual addresses of Services; not valid if they have none, as
// without a bridge.
func (n *Network) ServiceAddresses() netip.Prefix {
	if n.mode != Bridge {
		return netip.Prefix{}
	}
	return n.services.addresses
}

// openServices chooses the range of virtual addresses: the one in the settings, that of the addresses that Services already
// have, that of an earlier run, or else a private network that the host does not use.
func (n *Network) openServices(o Options) error {
	b := n.bridge
	routes, err := dump(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("routes of the host: %w", err)
	}
	taken, err := hostPrefixes()
	if err != nil {
		return err
	}
	var before []netlink.Route // those of an earlier run
	for _, r := range routes {
		if to := appendPrefix(nil, cmp.Or(r.Dst, &net.IPNet{})); r.LinkIndex == b.index && len(to) > 0 && to[0] != b.subnet {
			before = append(before, r)
			taken = slices.DeleteFunc(taken, func(p netip.Prefix) bool { return p == to[0] })
		}
	}
	addresses := o.ServiceRange
	if !addresses.IsValid() && len(o.Services) > 0 {
		addresses = netip.PrefixFrom(o.Services[0].At.Addr(), subnetBits).Masked()
	}
	if !addresses.IsValid() && len(before) > 0 {
		addresses = appendPrefix(nil, before[0].Dst)[0]
	}
	if !addresses.IsValid() {
		if addresses, err = chooseSubnet(o.Root+servicesSuffix, append(taken, b.subnet)); err != nil {
			return err
		}
	}
	if addresses.Overlaps(b.subnet) {
		return fmt.Errorf("the range of the addresses of Services, %s, overlaps the subnet of the bridge, %s", addresses, b.subnet)
	}
	if i := slices.IndexFunc(taken, addresses.Overlaps); i >= 0 {
		n.logger.Warn("the range of the addresses of Services overlaps a network of the host, which pods cannot reach",
			"services", addresses, "network", taken[i])
	}
	for _, s := range o.Services {
		if !addresses.Contains(s.At.Addr()) {
			n.logger.Warn("a Service has an address outside of the range, which the host may not reach",
				"service", s.Name, "address", s.At.Addr(), "services", addresses)
		}
	}
	// The host needs a route so that its own connections have an address of the bridge as their source.
	route := netlink.Route{
		LinkIndex: b.index, Scope: netlink.SCOPE_LINK, Src: b.address.AsSlice(),
		Dst: &net.IPNet{IP: addresses.Addr().AsSlice(), Mask: net.CIDRMask(addresses.Bits(), 32)},
	}
	if err := netlink.RouteReplace(&route); err != nil {
		return fmt.Errorf("route to the addresses of Services, %s: %w", addresses, err)
	}
	for _, r := range before {
		if r.Dst.String() != route.Dst.String() {
			if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("remove the route to %s: %w", r.Dst, err)
			}
		}
	}
	n.services.addresses = addresses
	n.services.want(o.Services)
	return nil
}
