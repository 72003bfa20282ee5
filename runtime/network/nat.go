package network

import (
	"fmt"
	"net"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// APIPort is that of the gateway at which pods find the API, as in a cluster.
const APIPort = 443

const (
	// Of linux/netfilter/nf_conntrack_common.h.
	stateEstablished = 1 << 1
	stateRelated     = 1 << 2
	statusDNAT       = 1 << 5

	// Offsets in the IPv4 header.
	sourceOffset      = 12
	destinationOffset = 16
	// And in those of TCP, UDP and SCTP alike.
	portOffset = 2
)

// writeRules replaces the nft table as a whole, in one transaction of the kernel:
//
//   - what pods send out has the host's address as its source;
//   - from outside a pod is reached only by a port of the host or in reply, whatever routes others set up;
//   - a port of the host that a pod has leads to it, from everywhere;
//   - APIPort of the gateway leads to the port where the daemon listens, if it does, from pods and from the host.
func (b *bridge) writeRules(ports []mappedPort, api uint16) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("nft: %w", err)
	}
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: b.name}
	conn.AddTable(table) // so that the deletion does not fail
	conn.DelTable(table)
	conn.AddTable(table)
	chain := func(
		name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority,
	) func(...[]expr.Any) {
		c := conn.AddChain(&nftables.Chain{Name: name, Table: table, Type: kind, Hooknum: hook, Priority: priority})
		return func(parts ...[]expr.Any) {
			rule := &nftables.Rule{Table: table, Chain: c}
			for _, p := range parts {
				rule.Exprs = append(rule.Exprs, p...)
			}
			conn.AddRule(rule)
		}
	}
	in, out := interfaceIs(expr.MetaKeyIIFNAME, b.name), interfaceIs(expr.MetaKeyOIFNAME, b.name)

	postrouting := chain("postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	fromPods := within(sourceOffset, b.subnet.Addr().AsSlice(), net.CIDRMask(b.subnet.Bits(), 32))
	// What the host sends to itself from the gateway's address keeps its source.
	postrouting(fromPods, interfaceIsNot(expr.MetaKeyOIFNAME, b.name), interfaceIsNot(expr.MetaKeyOIFNAME, "lo"), masquerade())

	forward := chain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	forward(out, in, verdict(expr.VerdictAccept))
	forward(out, conntrack(expr.CtKeySTATE, stateEstablished|stateRelated), verdict(expr.VerdictAccept))
	forward(out, conntrack(expr.CtKeySTATUS, statusDNAT), verdict(expr.VerdictAccept))
	forward(out, verdict(expr.VerdictDrop))

	if len(ports) == 0 && api == 0 {
		return b.flush(conn)
	}
	prerouting := chain("prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	output := chain("output", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	if api != 0 {
		p := mappedPort{hostPort{Protocol: corev1.ProtocolTCP, HostIP: b.address, HostPort: APIPort, Port: api}, b.address}
		to, err := p.match()
		if err != nil {
			return err
		}
		prerouting(in, to, p.translate())
		output(to, p.translate())
	}
	if len(ports) > 0 {
		// A pod that comes by a port of the host is answered through it, and so is the host's own loopback.
		postrouting(fromPods, out, conntrack(expr.CtKeySTATUS, statusDNAT), masquerade())
		loopback := within(sourceOffset, []byte{127, 0, 0, 0}, net.CIDRMask(8, 32))
		postrouting(loopback, out, masquerade())
		// Letting loopback addresses out to the bridge must not let them in.
		raw := chain("raw", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
		raw(in, within(destinationOffset, []byte{127, 0, 0, 0}, net.CIDRMask(8, 32)), verdict(expr.VerdictDrop))
		for _, p := range ports {
			to, err := p.match()
			if err != nil {
				return err
			}
			prerouting(to, p.translate())
			output(to, p.translate())
		}
		if err := b.routeLoopback(); err != nil {
			return err
		}
	}
	return b.flush(conn)
}

func (b *bridge) flush(conn *nftables.Conn) error {
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nft table %s: %w", b.name, err)
	}
	return nil
}

// match returns the expressions that match packets to the port of the host.
func (p mappedPort) match() ([]expr.Any, error) {
	var out []expr.Any
	if p.HostIP.IsValid() {
		out = within(destinationOffset, p.HostIP.AsSlice(), net.CIDRMask(32, 32))
	} else {
		out = []expr.Any{
			&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagDADDR: true},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
		}
	}
	number, ok := protocols[p.Protocol]
	if !ok {
		return nil, fmt.Errorf("protocol %q of a host port is not known", p.Protocol)
	}
	return append(out,
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{number}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(p.HostPort)},
	), nil
}

// translate returns the expressions that redirect such packets to the pod.
func (p mappedPort) translate() []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: p.pod.AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(p.Port)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2},
	}
}

func interfaceIs(key expr.MetaKey, name string) []expr.Any {
	return compareInterface(key, expr.CmpOpEq, name)
}

func interfaceIsNot(key expr.MetaKey, name string) []expr.Any {
	return compareInterface(key, expr.CmpOpNeq, name)
}

func compareInterface(key expr.MetaKey, op expr.CmpOp, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: padded}}
}

// within returns the expressions that match an address of the IPv4 header in a network.
func within(offset uint32, network, mask []byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: network},
	}
}

// conntrack returns the expressions that match connections with one of the status bits.
func conntrack(key expr.CtKey, bits uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: key, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

func masquerade() []expr.Any { return []expr.Any{&expr.Masq{}} }

func verdict(kind expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: kind}} }

// droppingForward names a chain of the host's firewall that drops what no rule of its own accepts, and which no rule of
// ours can overrule.
func droppingForward() string {
	conn, err := nftables.New()
	if err != nil {
		return ""
	}
	chains, err := conn.ListChains()
	if err != nil {
		return ""
	}
	for _, c := range chains {
		if c.Hooknum != nil && *c.Hooknum == *nftables.ChainHookForward && c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop &&
			(c.Table.Family == nftables.TableFamilyIPv4 || c.Table.Family == nftables.TableFamilyINet) {
			return c.Table.Name + " " + c.Name
		}
	}
	return ""
}
