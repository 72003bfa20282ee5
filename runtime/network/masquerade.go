package network

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What pods send out has the host's address as its source, and a port at which nothing of the host is reached. If it kept the one that the
// pod has chosen, a program that sends something from port 22 to each port of somebody else's machine would get what that machine sends to
// port 22 of the host afterwards: to the kernel that is the answer. And servers that trust ports below 1024 would take the pod for root of
// the host.

const masqueradeSuffix = "-out"

// The ports that packets of pods may get. By convention nothing listens there: most are those that the kernel gives to whoever asks for no
// particular one. NodePorts end before.
const firstMasqueraded, lastMasqueraded = 32768, 65535

// masqueraded returns the most ports in a row among those that lead neither to a pod nor to the daemon; all of them if each leads somewhere.
func (r rules) masqueraded() (first, last uint16) {
	taken := []int{firstMasqueraded - 1, lastMasqueraded + 1}
	for _, p := range r.ports {
		taken = append(taken, int(p.HostPort))
	}
	for _, e := range r.own {
		taken = append(taken, int(e.Port()))
	}
	taken = slices.DeleteFunc(taken, func(port int) bool { return port < firstMasqueraded-1 })
	slices.Sort(taken)
	most := 0
	first, last = firstMasqueraded, lastMasqueraded
	for i, next := range taken[1:] {
		if between := next - taken[i] - 1; between > most {
			most, first, last = between, uint16(taken[i]+1), uint16(next-1)
		}
	}
	return first, last
}

// masquerade replaces the table of that in a transaction of its own: what package nftables makes of a masquerade with ports, the kernel takes for one
// without, since a flag is missing.
func (b *bridge) masquerade(first, last uint16) error {
	name := b.name + masqueradeSuffix
	out := interfaceIs(expr.MetaKeyOIFNAME, b.name)
	fromPods := within(sourceOffset, b.subnet)
	const chain = "postrouting"
	var t transaction
	t.add(unix.NFT_MSG_NEWTABLE, text(unix.NFTA_TABLE_NAME, name)) // so that the deletion does not fail
	t.add(unix.NFT_MSG_DELTABLE, text(unix.NFTA_TABLE_NAME, name))
	t.add(unix.NFT_MSG_NEWTABLE, text(unix.NFTA_TABLE_NAME, name))
	t.add(unix.NFT_MSG_NEWCHAIN, text(unix.NFTA_CHAIN_TABLE, name), text(unix.NFTA_CHAIN_NAME, chain), text(unix.NFTA_CHAIN_TYPE, "nat"),
		t.nested(unix.NFTA_CHAIN_HOOK, number(unix.NFTA_HOOK_HOOKNUM, uint32(*nftables.ChainHookPostrouting)),
			number(unix.NFTA_HOOK_PRIORITY, uint32(*nftables.ChainPriorityNATSource))))
	for _, which := range [][]expr.Any{
		// What the host sends to itself from the gateway's address keeps its source.
		slices.Concat(fromPods, interfaceIsNot(expr.MetaKeyOIFNAME, b.name), interfaceIsNot(expr.MetaKeyOIFNAME, "lo")),
		// A pod that connects through a port of the host is answered through the host, and so is the host's own loopback.
		slices.Concat(fromPods, out, conntrack(expr.CtKeySTATUS, statusDNAT)),
		slices.Concat(within(sourceOffset, loopbackAddresses), out),
	} {
		var does []mdlayher.Attribute
		for _, e := range append(which,
			&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(first)},
			&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(last)},
		) {
			data, err := expr.Marshal(unix.NFPROTO_IPV4, e)
			if err != nil {
				return fmt.Errorf("nft table %s: %w", name, err)
			}
			does = append(does, mdlayher.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_LIST_ELEM, Data: data})
		}
		does = append(does, t.nested(unix.NFTA_LIST_ELEM, text(unix.NFTA_EXPR_NAME, "masq"), t.nested(unix.NFTA_EXPR_DATA,
			number(unix.NFTA_MASQ_FLAGS, unix.NF_NAT_RANGE_PROTO_SPECIFIED),
			number(unix.NFTA_MASQ_REG_PROTO_MIN, 1), number(unix.NFTA_MASQ_REG_PROTO_MAX, 2))))
		t.add(unix.NFT_MSG_NEWRULE, text(unix.NFTA_RULE_TABLE, name), text(unix.NFTA_RULE_CHAIN, chain), t.nested(unix.NFTA_RULE_EXPRESSIONS, does...))
	}
	if err := t.commit(); err != nil {
		return fmt.Errorf("nft table %s: %w", name, err)
	}
	return nil
}

// transaction collects messages of nf_tables for IPv4.
type transaction struct {
	messages []mdlayher.Message
	err      error
}

func (t *transaction) add(kind mdlayher.HeaderType, attributes ...mdlayher.Attribute) {
	flags := mdlayher.Request
	if kind != unix.NFT_MSG_DELTABLE {
		flags |= mdlayher.Create | mdlayher.Append
	}
	t.messages = append(t.messages, mdlayher.Message{
		Header: mdlayher.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | kind, Flags: flags},
		Data:   append([]byte{unix.NFPROTO_IPV4, unix.NFNETLINK_V0, 0, 0}, t.marshal(attributes)...),
	})
}

func (t *transaction) marshal(attributes []mdlayher.Attribute) []byte {
	data, err := mdlayher.MarshalAttributes(attributes)
	if err != nil {
		t.err = err
	}
	return data
}

func (t *transaction) nested(kind uint16, attributes ...mdlayher.Attribute) mdlayher.Attribute {
	return mdlayher.Attribute{Type: unix.NLA_F_NESTED | kind, Data: t.marshal(attributes)}
}

func text(kind uint16, s string) mdlayher.Attribute {
	return mdlayher.Attribute{Type: kind, Data: append([]byte(s), 0)}
}

func number(kind uint16, n uint32) mdlayher.Attribute {
	return mdlayher.Attribute{Type: kind, Data: binaryutil.BigEndian.PutUint32(n)}
}

// commit sends the messages, all of which take effect or none. The kernel answers the last one, and each that is wrong.
func (t *transaction) commit() error {
	if t.err != nil {
		return t.err
	}
	conn, err := mdlayher.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(kernelTimeout)); err != nil {
		return err
	}
	t.messages[len(t.messages)-1].Header.Flags |= mdlayher.Acknowledge
	edge := func(kind mdlayher.HeaderType) mdlayher.Message {
		return mdlayher.Message{
			Header: mdlayher.Header{Type: kind, Flags: mdlayher.Request}, Data: []byte{0, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES},
		}
	}
	if _, err := conn.SendMessages(slices.Concat(
		[]mdlayher.Message{edge(unix.NFNL_MSG_BATCH_BEGIN)}, t.messages, []mdlayher.Message{edge(unix.NFNL_MSG_BATCH_END)},
	)); err != nil {
		return err
	}
	_, err = conn.Receive()
	return err
}
