package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
)

// rules holds what differs from one state of a bridge's nft table to the next.
type rules struct {
	ports []mappedPort
	// own are the endpoints of the host that no port of a pod may take over. One without an address, which is that of a
	// program that listens at all of them, is for the table of Services alone: no port of a pod is the same.
	own []endpoint
	// api is the port of the gateway where the daemon listens for pods, 0 if it does not.
	api uint16
}

// ownRules is the state of the bridge's own nft table.
type ownRules struct {
	// asked is how often the table was to be written, guarded by Network.mu.
	asked uint64
	// writing is held while the table is written, which may take the kernel long; Network.mu, which the start of every pod needs,
	// is not held meanwhile. It guards what follows, and is locked before Network.mu.
	writing sync.Mutex
	written uint64 // for how many of those who asked
}

// writeRules brings the bridge's own nft table up to date with the ports of the host that pods have, and with the port of the API.
func (n *Network) writeRules() error {
	n.mu.Lock()
	n.rules.asked++
	turn := n.rules.asked
	n.mu.Unlock()
	n.rules.writing.Lock()
	defer n.rules.writing.Unlock()
	if n.rules.written >= turn {
		return nil // somebody has written it since, for all who waited
	}
	n.mu.Lock()
	asked, now := n.rules.asked, rules{ports: n.ports.list(), api: n.api, own: n.own()}
	n.mu.Unlock()
	listed, err := n.bridge.writeRules(now)
	if err != nil {
		return err
	}
	n.rules.written = asked
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bridge.listed = listed
	return n.routeLoopback()
}

// routeLoopback lets ports of the host work at its loopback address, if there are any. n.mu is held.
func (n *Network) routeLoopback() error {
	return n.bridge.routeLoopback(len(n.ports.mapped) > 0 || n.bridge.nodePorts)
}

// writeRules replaces the nft table as a whole. On a kernel that cannot ask its routes which addresses are the host's,
// the table lists them, and they are returned: see FollowAddresses.
func (b *bridge) writeRules(r rules) (listed []hostAddress, err error) {
	if err := b.masquerade(r.masqueraded()); err != nil {
		return nil, err
	}
	if b.listed == nil {
		err := b.replaceTable(r, (*table).localByRoutes)
		if err == nil || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return nil, err
		}
	}
	if listed, err = hostAddresses(); err != nil {
		return nil, err
	}
	return listed, b.replaceTable(r, func(t *table) (local, error) { return t.localByList(listed) })
}

// replaceTable replaces the nft table in one transaction of the kernel; what pods send out is in another one (masquerade):
//
//   - from outside, a pod can be reached only through a port of the host or in reply, whatever routes others set up;
//   - a port of the host that a pod has leads to it, from everywhere; packets to addresses that are not the host's are
//     not redirected;
//   - APIPort of the gateway leads to the port where the daemon listens, if it does, from pods and from the host;
//   - no pod reaches the loopback addresses of the host or uses one of them as its own. This holds from the first
//     transaction on, and so before routeLoopback makes the kernel accept such packets.
func (b *bridge) replaceTable(r rules, localTo func(*table) (local, error)) error {
	conn, err := openNFT()
	if err != nil {
		return err
	}
	t := newTable(conn, nftables.TableFamilyIPv4, b.name)
	in, out := interfaceIs(expr.MetaKeyIIFNAME, b.name), interfaceIs(expr.MetaKeyOIFNAME, b.name)
	forward := t.hook("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	forward(out, in, verdict(expr.VerdictAccept))
	forward(out, conntrack(expr.CtKeySTATE, stateEstablished|stateRelated), verdict(expr.VerdictAccept))
	forward(out, conntrack(expr.CtKeySTATUS, statusDNAT), verdict(expr.VerdictAccept))
	forward(out, verdict(expr.VerdictDrop))

	raw := t.hook("raw", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	raw(in, within(destinationOffset, loopbackAddresses), verdict(expr.VerdictDrop))
	raw(in, within(sourceOffset, loopbackAddresses), verdict(expr.VerdictDrop))

	toPods, err := t.hostPorts(r)
	if err != nil {
		return err
	}
	here, err := localTo(t)
	if err != nil {
		return err
	}
	prerouting := t.hook("prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting,
		nftables.ChainPriorityNATDest)
	output := t.hook("output", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	if r.api != 0 {
		lead := slices.Concat(
			endpoint{netip.AddrPortFrom(b.address, APIPort), corev1.ProtocolTCP}.is(),
			translateTo(netip.AddrPortFrom(b.address, r.api)),
		)
		prerouting(in, lead)
		output(lead)
	}
	// Nor do ports of pods take over what another daemon has on its bridge, where its name server is.
	prerouting(interfaceBegins(expr.MetaKeyIIFNAME, runtime.RootPrefix), interfaceIsNot(expr.MetaKeyIIFNAME, b.name),
		here.toInterface, verdict(expr.VerdictAccept))
	for _, chain := range []func(...[]expr.Any){prerouting, output} {
		for _, toHost := range here.toHost {
			chain(toHost, []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: toPods}})
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nft table %s: %w", b.name, err)
	}
	return nil
}

// hostPorts adds the chain for packets to an address of the host, and returns its name: it translates the destination
// where that is a port of a pod. However many ports there are, a packet costs at most three lookups.
func (t *table) hostPorts(r rules) (string, error) {
	const name = "host-ports"
	at := nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService)
	anywhere := nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService)
	to := nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)
	own := &nftables.Set{Table: t.table, ID: 1, Name: "own", KeyType: at}
	portsAt := &nftables.Set{Table: t.table, ID: 2, Name: "ports-at", KeyType: at, DataType: to, IsMap: true}
	ports := &nftables.Set{Table: t.table, ID: 3, Name: "ports", KeyType: anywhere, DataType: to, IsMap: true}

	var ofOwn, ofPortsAt, ofPorts []nftables.SetElement
	for _, e := range r.own {
		if !e.Addr().IsUnspecified() {
			ofOwn = append(ofOwn, nftables.SetElement{Key: e.key()})
		}
	}
	for _, p := range r.ports {
		if _, known := protocols[p.Protocol]; !known {
			return "", fmt.Errorf("protocol %q of a host port is not known", p.Protocol)
		}
		element := nftables.SetElement{
			Key: portKey(p.Protocol, p.HostPort), Val: addressAndPort(netip.AddrPortFrom(p.pod, p.Port)),
		}
		if p.HostIP.IsValid() {
			element.Key = endpoint{netip.AddrPortFrom(p.HostIP, p.HostPort), p.Protocol}.key()
			ofPortsAt = append(ofPortsAt, element)
		} else {
			ofPorts = append(ofPorts, element)
		}
	}
	for set, elements := range map[*nftables.Set][]nftables.SetElement{own: ofOwn, portsAt: ofPortsAt, ports: ofPorts} {
		if err := t.fill(set, elements); err != nil {
			return "", err
		}
	}

	chain := t.chain(&nftables.Chain{Name: name})
	// The key of a lookup is in consecutive registers of four bytes, and so is what it finds.
	portAt := func(register uint32) []expr.Any {
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
			&expr.Payload{
				DestRegister: register + 1, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2,
			},
		}
	}
	addressAndPort := append([]expr.Any{
		&expr.Payload{
			DestRegister: smallRegister, Base: expr.PayloadBaseNetworkHeader, Offset: destinationOffset, Len: 4,
		},
	}, portAt(smallRegister+1)...)
	find := func(in *nftables.Set) []expr.Any {
		return []expr.Any{
			&expr.Lookup{
				SourceRegister: smallRegister, SetName: in.Name, SetID: in.ID, DestRegister: smallRegister,
				IsDestRegSet: in.IsMap,
			},
		}
	}
	translate := []expr.Any{
		&expr.NAT{
			Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: smallRegister,
			RegProtoMin: smallRegister + 1,
		},
	}
	chain(addressAndPort, find(own), verdict(expr.VerdictAccept))
	chain(addressAndPort, find(portsAt), translate)
	chain(portAt(smallRegister), find(ports), translate)
	return name, nil
}

// endpoint is a port at one address.
type endpoint struct {
	netip.AddrPort
	protocol corev1.Protocol
}

// key returns the endpoint as the key of a set.
func (e endpoint) key() []byte {
	return slices.Concat(e.Addr().AsSlice(), portKey(e.protocol, e.Port()))
}

func portKey(protocol corev1.Protocol, port uint16) []byte {
	return append([]byte{protocols[protocol], 0, 0, 0}, paddedPort(port)...)
}

func addressAndPort(a netip.AddrPort) []byte {
	return append(a.Addr().AsSlice(), paddedPort(a.Port())...)
}

func paddedPort(port uint16) []byte { return append(binaryutil.BigEndian.PutUint16(port), 0, 0) }

// is returns the expressions that match packets to the endpoint.
func (e endpoint) is() []expr.Any {
	return append(within(destinationOffset, netip.PrefixFrom(e.Addr(), e.Addr().BitLen())),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocols[e.protocol]}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(e.Port())},
	)
}

// translateTo returns the expressions that redirect packets to an address and port.
func translateTo(a netip.AddrPort) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: a.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(a.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2},
	}
}

// within returns the expressions that match packets whose address at an offset of the IPv4 header is in a network.
func within(offset uint32, p netip.Prefix) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4, Mask: net.CIDRMask(p.Bits(), 32), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()},
	}
}

// conntrack returns the expressions that match packets of connections with at least one of the bits.
func conntrack(key expr.CtKey, bits uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: key, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits),
			Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}
