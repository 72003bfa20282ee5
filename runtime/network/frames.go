package network

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// Offsets in an Ethernet header, and in the ARP message for IPv4 behind one.
	sourceHardwareOffset = 6
	kindOffset           = 12
	senderHardwareOffset = 8
	senderAddressOffset  = 14

	dhcpServerPort = 67
	// bridgedFirst is the priority of a chain that sees a frame before all else, NF_BR_PRI_NAT_DST_BRIDGED of
	// linux/netfilter_bridge.h.
	bridgedFirst = -300
)

// linkPrefix returns the prefix that the names of the host's ends of all pods' links share.
func (b *bridge) linkPrefix() string {
	return "jobd" + hex.EncodeToString(b.subnet.Addr().AsSlice())[:b.subnet.Bits()/4]
}

// hardwareAddressOf returns the hardware address of a bridge. It is fixed: one that the kernel chose would change as
// pods come and go.
func hardwareAddressOf(bridge string) net.HardwareAddr {
	return append(net.HardwareAddr{0x02}, []byte(bridge)[len(bridge)-5:]...)
}

// guardFrames keeps pods from passing for others on the bridge, which CAP_NET_RAW would let them do:
//
//   - they can send only IPv4 and ARP, and not behind VLAN tags: nobody here speaks IPv6, in which a single router
//     advertisement would lead the traffic of all pods to the pod that sends it;
//   - each can use only the hardware address and the IPv4 address that it was given, in the frame, in ARP and in IPv4,
//     and so neither the gateway's nor another pod's;
//   - none can answer as a DHCP server;
//   - none can send to the addresses that are for bridges themselves, by which a frame would come past all this to the
//     host, which takes even a router advertisement from it.
//
// And it leads to other pods what a pod sends to the gateway for them (leadToPods).
//
// The name and the hardware address of a link follow from the pod's address. So the table can list every possible pod:
// it is written once, and no pod waits for it.
func (b *bridge) guardFrames() error {
	if err := b.seeFramesToBridges(); err != nil {
		return err
	}
	conn, err := openNFT()
	if err != nil {
		return err
	}
	t := newTable(conn, nftables.TableFamilyBridge, b.name)
	known := &nftables.Set{
		Table: t.table, ID: 1, Name: "pods",
		KeyType: nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeEtherAddr, nftables.TypeIPAddr),
	}
	if err := t.fill(known, knownPods(b.subnet)); err != nil {
		return err
	}
	// isKnown returns the expressions that match a frame whose hardware address and IPv4 address belong to the link
	// that it comes in by.
	isKnown := func(hardwareBase expr.PayloadBase, hardwareOffset, addressOffset uint32) []expr.Any {
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: smallRegister},
			&expr.Payload{DestRegister: smallRegister + 4, Base: hardwareBase, Offset: hardwareOffset, Len: 6},
			&expr.Payload{
				DestRegister: smallRegister + 6, Base: expr.PayloadBaseNetworkHeader, Offset: addressOffset, Len: 4,
			},
			&expr.Lookup{SourceRegister: smallRegister, SetName: known.Name, SetID: known.ID},
		}
	}
	accept, drop := verdict(expr.VerdictAccept), verdict(expr.VerdictDrop)
	fromPods := t.chain(&nftables.Chain{Name: "from-pods"})
	fromPods(frameIs(unix.ETH_P_ARP),
		isKnown(expr.PayloadBaseLLHeader, sourceHardwareOffset, senderAddressOffset),
		isKnown(expr.PayloadBaseNetworkHeader, senderHardwareOffset, senderAddressOffset), accept)
	fromPods(frameIs(unix.ETH_P_IP), []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
	}, holds(expr.PayloadBaseTransportHeader, 0, binaryutil.BigEndian.PutUint16(dhcpServerPort)), drop)
	fromPods(frameIs(unix.ETH_P_IP), isKnown(expr.PayloadBaseLLHeader, sourceHardwareOffset, sourceOffset), accept)
	fromPods(drop)
	prerouting := t.hook("prerouting", nftables.ChainTypeFilter, nftables.ChainHookPrerouting,
		nftables.ChainPriorityRef(bridgedFirst))
	input := t.hook("input", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityRef(bridgedFirst))
	byPods := interfaceBegins(expr.MetaKeyIIFNAME, b.linkPrefix())
	for _, chain := range []func(...[]expr.Any){prerouting, input} {
		chain(byPods, toBridges(), drop)
	}
	lead, err := b.leadToPods(t)
	if err != nil {
		return err
	}
	prerouting(byPods, lead)
	prerouting(byPods, []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: "from-pods"}})
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nft table %s of the bridge family: %w", b.name, err)
	}
	b.leads = true
	return nil
}

// toBridges returns the expressions that match frames to the addresses 01:80:c2:00:00:00 to 0f of IEEE 802.1D.
func toBridges() []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseLLHeader, Len: 6},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 6, Mask: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xf0}, Xor: make([]byte, 6),
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0x01, 0x80, 0xc2, 0, 0, 0}},
	}
}

// seeFramesToBridges makes the bridge treat frames to such addresses like any others, so that the rules see them. It would
// hand them to the host as if they had come in by an interface outside of the bridge, and at least that of LLDP without
// asking nf_tables at all. The kernel makes an exception for the first three: the rules see the first and the last of them,
// and the second leads nowhere.
func (b *bridge) seeFramesToBridges() error {
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.IFLA_BR_GROUP_FWD_MASK, nl.Uint16Attr(0xfff8))
	return b.host.do(newChange("frames to bridges", unix.RTM_NEWLINK, 0,
		nl.NewIfInfomsg(unix.AF_UNSPEC), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(b.name)), info))
}

// knownPods returns the links that pods of a subnet can have, each with the addresses that belong to it, as elements of
// a set.
func knownPods(subnet netip.Prefix) []nftables.SetElement {
	var out []nftables.SetElement
	for pod := gateway(subnet).Next(); subnet.Contains(pod.Next()); pod = pod.Next() {
		// Each part of the key fills whole registers of four bytes.
		key := make([]byte, unix.IFNAMSIZ, unix.IFNAMSIZ+12)
		copy(key, linkName(pod))
		key = append(append(key, hardwareAddress(pod)...), 0, 0)
		out = append(out, nftables.SetElement{Key: append(key, pod.AsSlice()...)})
	}
	return out
}

// holds returns the expressions that match certain bytes of a header.
func holds(base expr.PayloadBase, offset uint32, data []byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: base, Offset: offset, Len: uint32(len(data))},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data},
	}
}

// frameIs returns the expressions that match frames that carry a protocol without any VLAN tag.
func frameIs(kind uint16) []expr.Any {
	return holds(expr.PayloadBaseLLHeader, kindOffset, binaryutil.BigEndian.PutUint16(kind))
}

// etherTypeIs returns the expressions that match frames by the protocol that they carry, even behind a VLAN tag.
func etherTypeIs(kind uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(kind)},
	}
}

const (
	// ipv6Settings is a directory of settings for each interface of the thread's namespace.
	ipv6Settings = "/proc/sys/net/ipv6/conf"
	// noAddress is IN6_ADDR_GEN_MODE_NONE of linux/if_link.h.
	noAddress = 1
)

// ipv6Off are the settings with which an interface has no IPv6, so that no neighbour can give it an address and a route.
// The loopback interface keeps its ::1.
var ipv6Off = []struct{ name, value string }{{"accept_ra", "0"}, {"disable_ipv6", "1"}}

// cannotSet reports whether a setting cannot be changed here: a kernel without IPv6 has no such setting; and where
// settings cannot be written, the bridge's rules have to suffice.
func cannotSet(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission)
}

// withoutIPv6 disables IPv6 on an interface of the thread's namespace.
func withoutIPv6(link string) error {
	for _, setting := range ipv6Off {
		if err := set(filepath.Join(ipv6Settings, link, setting.name), setting.value); err != nil && !cannotSet(err) {
			return fmt.Errorf("without IPv6: %w", err)
		}
	}
	return nil
}

// newLinksWithoutIPv6 calls add. The interfaces that it adds to the thread's namespace have no IPv6 from the start. That
// is a default of the namespace meanwhile: to disable IPv6 of an interface that is there, a thread has to wait for all
// others that change links, and the kernel lets it try again and again.
func newLinksWithoutIPv6(add func() error) (err error) {
	for _, setting := range ipv6Off {
		restore, setErr := setDefault(setting.name, setting.value)
		if cannotSet(setErr) {
			continue
		} else if setErr != nil {
			return fmt.Errorf("without IPv6: %w", setErr)
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	return add()
}

// setDefault sets what new interfaces of the thread's namespace begin with, until restore is called.
func setDefault(name, value string) (restore func() error, err error) {
	path := filepath.Join(ipv6Settings, "default", name)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	before := make([]byte, 16)
	n, err := unix.Pread(fd, before, 0)
	if err == nil {
		_, err = unix.Pwrite(fd, []byte(value), 0)
	}
	if err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return func() error {
		defer unix.Close(fd)
		if _, err := unix.Pwrite(fd, before[:n], 0); err != nil {
			return &fs.PathError{Op: "write", Path: path, Err: err}
		}
		return nil
	}, nil
}
