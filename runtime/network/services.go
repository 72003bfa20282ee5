package network

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
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
	// affinityClients is how many clients of a port of a Service are remembered (sessionAffinity). Others get a random
	// endpoint for each connection.
	affinityClients = 65535
	// icmpPortUnreachable is the code of an ICMP message (RFC 792).
	icmpPortUnreachable = 3
	chainPrefix         = "port-"
	// dynsetDelete is NFT_DYNSET_OP_DELETE of linux/netfilter/nf_tables.h.
	dynsetDelete = 2
)

// portSets are how the names of the sets of a port begin.
var portSets = []string{"clients-", "endpoints-", "all-"}

// ServicePort is a port of a Service, and where it leads.
type ServicePort struct {
	// Name is that of the Service and its port, and differs from that of every other port.
	Name     string
	Protocol corev1.Protocol
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

// chain returns the name of the port's nft chain.
func (p ServicePort) chain() string { return chainPrefix + p.id() }

// clients returns the name of the nft map of the port's clients and their endpoints.
func (p ServicePort) clients() string { return portSets[0] + p.id() }

// sets returns the names of the nft sets of the port, without that of its clients: the endpoints by number, and as a
// set.
func (p ServicePort) sets() (byNumber, all string) { return portSets[1] + p.id(), portSets[2] + p.id() }

func (p ServicePort) id() string {
	sum := sha256.Sum256([]byte(p.Name))
	return hex.EncodeToString(sum[:10])
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
	// applied are the ports that the kernel has, by the names of their chains; nil if that is not known.
	applied map[string]ServicePort
}

// SetServices makes the kernel map the ports of Services to their endpoints. The rules change in one transaction and
// apply to new connections: those that are established stay. Endpoints at the gateway of the bridge are left out, since a
// port of the host would open to other machines what only pods may reach there. Without virtual addresses it does nothing.
func (n *Network) SetServices(ports []ServicePort) error {
	if !n.ServiceAddresses().IsValid() {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.services.wanted = slices.Clone(ports)
	for i := range ports {
		n.services.wanted[i].Endpoints = slices.DeleteFunc(slices.Clone(ports[i].Endpoints), func(e netip.AddrPort) bool {
			return e.Addr() == n.bridge.address
		})
	}
	return n.writeServices()
}

// free fails if one of the ports of a pod is that of a Service.
func (s *services) free(ports []hostPort) error {
	for _, p := range ports {
		for _, q := range s.wanted {
			if q.NodePort == p.HostPort && q.Protocol == p.Protocol {
				return fmt.Errorf("%s is that of the Service %s: %w", p, q.Name, errdefs.ErrAlreadyExists)
			}
		}
	}
	return nil
}

// writeServices brings the nft table of Services up to date.
func (n *Network) writeServices() error {
	s := &n.services
	changed, err := n.bridge.writeServices(s, n.own())
	if err != nil {
		s.applied = nil
		return fmt.Errorf("network: services: %w", err)
	}
	if err := n.bridge.endDatagrams(changed); err != nil {
		n.logger.Warn("cannot end UDP connections to former endpoints of Services", "error", err)
	}
	loopback := slices.ContainsFunc(s.wanted, func(p ServicePort) bool { return p.NodePort != 0 })
	if loopback != n.bridge.nodePorts {
		n.bridge.nodePorts = loopback
		return n.bridge.routeLoopback(loopback || len(n.ports.mapped) > 0)
	}
	return nil
}

// writeServices rewrites what has changed of the nft table of Services, in one transaction, and returns the ports that
// have changed:
//
//   - a connection of a pod or of the host to a virtual address leads to one of the endpoints, and so does one from
//     anywhere to an external address or a port of the host;
//   - what is the daemon's own leads there, whatever port or external address a Service has;
//   - from outside, no virtual address can be reached, whatever routes others set up;
//   - what leads nowhere is refused.
//
// The maps of clients stay while their port does, since they are the only record of them.
func (b *bridge) writeServices(s *services, own []endpoint) (changed []ServicePort, err error) {
	conn, err := openNFT()
	if err != nil {
		return nil, err
	}
	t := &table{conn, &nftables.Table{Family: nftables.TableFamilyIPv4, Name: b.name + servicesSuffix}}
	conn.AddTable(t.table)

	wanted := make(map[string]ServicePort, len(s.wanted))
	for _, p := range s.wanted {
		if _, known := protocols[p.Protocol]; !known {
			return nil, fmt.Errorf("protocol %q of %s is not known", p.Protocol, p.Name)
		}
		wanted[p.chain()] = p
	}
	chains, sets, err := t.portsThere(s.applied)
	if err != nil {
		return nil, err
	}
	// The maps are emptied first: what they lead to can be removed then.
	leads := newServiceMaps(t.table)
	for _, set := range leads.all() {
		if err := conn.AddSet(set, nil); err != nil {
			return nil, err
		}
		conn.FlushSet(set)
	}
	for name := range chains {
		if p, ok := wanted[name]; ok && s.applied != nil && p.sameRules(s.applied[name]) {
			continue
		}
		conn.FlushChain(&nftables.Chain{Table: t.table, Name: name})
	}
	for name := range chains {
		if _, ok := wanted[name]; !ok {
			conn.DelChain(&nftables.Chain{Table: t.table, Name: name})
		}
	}
	kept := map[string]bool{}
	for _, p := range s.wanted {
		kept[p.clients()] = p.hasClients()
		if before, known := s.applied[p.chain()]; known && p.sameRules(before) {
			byNumber, all := p.sets()
			kept[byNumber], kept[all] = true, true
		}
	}
	for name := range sets {
		if !kept[name] {
			conn.DelSet(&nftables.Set{Table: t.table, Name: name})
		}
	}
	for _, p := range s.wanted {
		before, known := s.applied[p.chain()]
		if !known || !p.equal(before) {
			changed = append(changed, p)
		}
		if known && p.sameRules(before) {
			continue
		}
		if err := t.servicePort(p); err != nil {
			return nil, err
		}
	}
	for name, p := range s.applied {
		if _, ok := wanted[name]; !ok {
			p.Endpoints = nil
			changed = append(changed, p)
		}
	}
	if err := leads.fill(t, s.wanted, own); err != nil {
		return nil, err
	}
	if err := b.serviceHooks(t, leads, s.addresses); err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, fmt.Errorf("nft table %s: %w", t.table.Name, err)
	}
	s.applied = wanted
	return changed, nil
}

// sameRules reports whether two ports have the same rules in their chains.
func (p ServicePort) sameRules(q ServicePort) bool {
	return slices.Equal(p.Endpoints, q.Endpoints) && p.Affinity == q.Affinity
}

// hasClients reports whether the port has a map of its clients.
func (p ServicePort) hasClients() bool { return p.Affinity > 0 && len(p.Endpoints) > 0 }

// portsThere returns the names of the chains and of the sets of ports that the table has: those of the ports that were
// applied or, if that is nil, what the kernel says.
func (t *table) portsThere(applied map[string]ServicePort) (chains, sets map[string]bool, err error) {
	chains, sets = map[string]bool{}, map[string]bool{}
	if applied != nil {
		for name, p := range applied {
			chains[name] = true
			sets[p.clients()] = sets[p.clients()] || p.hasClients()
			byNumber, all := p.sets()
			sets[byNumber], sets[all] = len(p.Endpoints) > 0, p.hasClients()
		}
		maps.DeleteFunc(sets, func(_ string, there bool) bool { return !there })
		return chains, sets, nil
	}
	conn, err := openNFT()
	if err != nil {
		return nil, nil, err
	}
	if there, err := hasTable(conn, t.table.Name); err != nil || !there {
		return chains, sets, err
	}
	all, err := conn.ListChainsOfTableFamily(t.table.Family)
	if err != nil {
		return nil, nil, fmt.Errorf("nft chains: %w", err)
	}
	for _, c := range all {
		if c.Table.Name == t.table.Name && strings.HasPrefix(c.Name, chainPrefix) {
			chains[c.Name] = true
		}
	}
	known, err := conn.GetSets(t.table)
	if err != nil {
		return nil, nil, fmt.Errorf("nft sets: %w", err)
	}
	for _, set := range known {
		if slices.ContainsFunc(portSets, func(prefix string) bool { return strings.HasPrefix(set.Name, prefix) }) {
			sets[set.Name] = true
		}
	}
	return chains, sets, nil
}

// servicePort adds the chain of a port with its rules.
func (t *table) servicePort(p ServicePort) error {
	chain := t.chain(&nftables.Chain{Name: p.chain()})
	if len(p.Endpoints) == 0 {
		return nil
	}
	to := nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)
	const address, port = smallRegister + 1, smallRegister + 2
	translate := []expr.Any{
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: address, RegProtoMin: port},
	}
	byNumber, _ := p.sets()
	endpoints := &nftables.Set{Table: t.table, Name: byNumber, IsMap: true, KeyType: nftables.TypeInteger, DataType: to}
	var elements []nftables.SetElement
	for i, e := range p.Endpoints {
		elements = append(elements, nftables.SetElement{
			Key: binaryutil.NativeEndian.PutUint32(uint32(i)), Val: addressAndPort(e),
		})
	}
	if err := t.fill(endpoints, elements); err != nil {
		return err
	}
	choose := []expr.Any{
		&expr.Numgen{Register: address, Modulus: uint32(len(p.Endpoints)), Type: unix.NFT_NG_RANDOM},
		&expr.Lookup{
			SourceRegister: address, SetName: endpoints.Name, SetID: endpoints.ID, DestRegister: address,
			IsDestRegSet: true,
		},
	}
	if p.hasClients() {
		if err := t.clients(p, chain, choose, translate); err != nil {
			return err
		}
	}
	chain(choose, translate)
	return nil
}

// clients adds the rules of a port that lead a client to the endpoint that it had before, if that is still one, and
// otherwise remember the one that is chosen.
func (t *table) clients(p ServicePort, chain func(...[]expr.Any), choose, translate []expr.Any) error {
	to := nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)
	const client, address = smallRegister, smallRegister + 1
	clients := &nftables.Set{
		Table: t.table, Name: p.clients(), IsMap: true, Dynamic: true, HasTimeout: true, Size: affinityClients,
		KeyType: nftables.TypeIPAddr, DataType: to,
	}
	if err := t.conn.AddSet(clients, nil); err != nil {
		return err
	}
	_, all := p.sets()
	there := &nftables.Set{Table: t.table, Name: all, KeyType: to}
	var elements []nftables.SetElement
	for _, e := range p.Endpoints {
		elements = append(elements, nftables.SetElement{Key: addressAndPort(e)})
	}
	if err := t.fill(there, elements); err != nil {
		return err
	}
	load := []expr.Any{
		&expr.Payload{DestRegister: client, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset, Len: 4},
	}
	note := func(operation uint32) []expr.Any {
		return []expr.Any{&expr.Dynset{
			SrcRegKey: client, SrcRegData: address, SetName: clients.Name, SetID: clients.ID, Operation: operation,
			Timeout: p.Affinity,
		}}
	}
	chain(load, []expr.Any{
		&expr.Lookup{
			SourceRegister: client, SetName: clients.Name, SetID: clients.ID, DestRegister: address, IsDestRegSet: true,
		},
		&expr.Lookup{SourceRegister: address, SetName: there.Name, SetID: there.ID},
	}, note(unix.NFT_DYNSET_OP_UPDATE), translate)
	// An update does not change what is there, so a former endpoint is removed first.
	chain(load, choose, note(dynsetDelete), note(unix.NFT_DYNSET_OP_UPDATE), translate)
	return nil
}

// serviceMaps lead from destinations to the chains of ports.
type serviceMaps struct {
	virtual, external, nodePorts *nftables.Set
	// own and ownPorts are destinations that no Service takes over.
	own, ownPorts *nftables.Set
	// refused and refusedPorts are destinations that lead nowhere.
	refused, refusedPorts *nftables.Set
}

func newServiceMaps(t *nftables.Table) serviceMaps {
	at := nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService)
	anywhere := nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService)
	verdicts := func(name string, key nftables.SetDatatype) *nftables.Set {
		return &nftables.Set{Table: t, Name: name, KeyType: key, DataType: nftables.TypeVerdict, IsMap: true}
	}
	return serviceMaps{
		virtual: verdicts("virtual", at), external: verdicts("external", at), nodePorts: verdicts("node-ports", anywhere),
		own: &nftables.Set{Table: t, Name: "own", KeyType: at}, ownPorts: &nftables.Set{Table: t, Name: "own-ports", KeyType: anywhere},
		refused:      &nftables.Set{Table: t, Name: "refused", KeyType: at},
		refusedPorts: &nftables.Set{Table: t, Name: "refused-ports", KeyType: anywhere},
	}
}

func (m serviceMaps) all() []*nftables.Set {
	return []*nftables.Set{m.virtual, m.external, m.nodePorts, m.own, m.ownPorts, m.refused, m.refusedPorts}
}

func (m serviceMaps) fill(t *table, ports []ServicePort, own []endpoint) error {
	of := map[*nftables.Set][]nftables.SetElement{}
	for _, e := range own {
		in, key := m.own, e.key()
		if e.Addr().IsUnspecified() {
			in, key = m.ownPorts, portKey(e.protocol, e.Port())
		}
		of[in] = append(of[in], nftables.SetElement{Key: key})
	}
	for _, p := range ports {
		lead := func(in, refused *nftables.Set, key []byte) {
			e := nftables.SetElement{Key: key}
			if len(p.Endpoints) == 0 {
				in = refused
			} else {
				e.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: p.chain()}
			}
			of[in] = append(of[in], e)
		}
		lead(m.virtual, m.refused, endpoint{p.At, p.Protocol}.key())
		for _, a := range p.External {
			lead(m.external, m.refused, endpoint{netip.AddrPortFrom(a, p.At.Port()), p.Protocol}.key())
		}
		if p.NodePort != 0 {
			lead(m.nodePorts, m.refusedPorts, portKey(p.Protocol, p.NodePort))
		}
	}
	for _, set := range m.all() {
		if err := t.fill(set, of[set]); err != nil {
			return err
		}
	}
	return nil
}

// serviceHooks writes the chains that the kernel calls.
func (b *bridge) serviceHooks(t *table, m serviceMaps, addresses netip.Prefix) error {
	hook := func(
		name string, kind nftables.ChainType, at *nftables.ChainHook, priority *nftables.ChainPriority,
	) func(...[]expr.Any) {
		add := t.hook(name, kind, at, priority)
		t.conn.FlushChain(&nftables.Chain{Table: t.table, Name: name})
		return add
	}
	portAt := func(register uint32) []expr.Any {
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
			&expr.Payload{
				DestRegister: register + 1, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2,
			},
		}
	}
	address := &expr.Payload{
		DestRegister: smallRegister, Base: expr.PayloadBaseNetworkHeader, Offset: destinationOffset, Len: 4,
	}
	byAddress := append([]expr.Any{address}, portAt(smallRegister+1)...)
	byPort := portAt(smallRegister)
	lookup := func(in *nftables.Set) []expr.Any {
		found := &expr.Lookup{SourceRegister: smallRegister, SetName: in.Name, SetID: in.ID}
		if in.IsMap {
			found.DestRegister, found.IsDestRegSet = unix.NFT_REG_VERDICT, true
		}
		return []expr.Any{found}
	}
	fromPods := interfaceIs(expr.MetaKeyIIFNAME, b.name)
	local := b.localDestinations()

	nat := nftables.ChainPriorityRef(afterHostPorts)
	prerouting := hook("prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nat)
	prerouting(fromPods, byAddress, lookup(m.virtual))
	output := hook("output", nftables.ChainTypeNAT, nftables.ChainHookOutput, nat)
	output(byAddress, lookup(m.virtual))
	for _, chain := range []func(...[]expr.Any){prerouting, output} {
		chain(byAddress, lookup(m.own), verdict(expr.VerdictAccept))
		for _, here := range local {
			chain(here, byPort, lookup(m.ownPorts), verdict(expr.VerdictAccept))
		}
		chain(byAddress, lookup(m.external))
		for _, here := range local {
			chain(here, byPort, lookup(m.nodePorts))
		}
	}

	refuse := t.chain(&nftables.Chain{Name: "refuse"})
	t.conn.FlushChain(&nftables.Chain{Table: t.table, Name: "refuse"})
	refuse([]expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Reject{Type: unix.NFT_REJECT_TCP_RST},
	})
	refuse([]expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: icmpPortUnreachable}})
	toRefuse := []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: "refuse"}}
	for name, at := range map[string]*nftables.ChainHook{
		"refuse-forwarded": nftables.ChainHookForward, "refuse-sent": nftables.ChainHookOutput,
		"refuse-received": nftables.ChainHookInput,
	} {
		chain := hook(name, nftables.ChainTypeFilter, at, nftables.ChainPriorityFilter)
		if at == nftables.ChainHookOutput {
			chain(within(destinationOffset, addresses), toRefuse)
		} else {
			chain(fromPods, within(destinationOffset, addresses), toRefuse)
		}
		chain(byAddress, lookup(m.refused), toRefuse)
		if at == nftables.ChainHookInput {
			chain(byPort, lookup(m.refusedPorts), toRefuse)
		}
	}
	return nil
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
	changed = slices.DeleteFunc(slices.Clone(changed), func(p ServicePort) bool { return p.Protocol != corev1.ProtocolUDP })
	if len(changed) == 0 {
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
		return slices.ContainsFunc(changed, func(p ServicePort) bool {
			meant := f.Forward.DstPort == p.At.Port() && (to == p.At.Addr() || slices.Contains(p.External, to)) ||
				p.NodePort != 0 && f.Forward.DstPort == p.NodePort && isLocal(addresses, f.Forward.DstIP)
			return meant && !slices.Contains(p.Endpoints, netip.AddrPortFrom(leads, f.Reverse.SrcPort))
		})
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

// openServices chooses the range of virtual addresses: the one that is asked for, that of addresses that Services have
// already, the one of an earlier run, or else a private network that the host does not use.
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
	n.services.addresses, n.services.wanted = addresses, o.Services
	return nil
}
