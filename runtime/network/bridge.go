package network

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime"
)

// podInterface is the name of a pod's end of its link.
const podInterface = "eth0"

// bridge is a bridge on the host, the pods' gateway to everything else.
type bridge struct {
	name    string
	index   int
	mtu     int
	subnet  netip.Prefix
	address netip.Addr
	host    *rtnetlink // of the host's namespace
	made    bool       // by this run
	ipv6    bool       // the kernel has it
	leads   bool       // to pods what is sent to the gateway for them, so that pods know no other neighbour
	// listed are the host's addresses that the rules name; nil: the kernel looks them up. It is written with both Network.mu and
	// ownRules.writing held, and read with either.
	listed []hostAddress
	// nodePorts says that Services have ports of the host. Network.mu guards it.
	nodePorts bool
}

// openBridge finds the bridge of a root, or creates it in the subnet of the pods of the records. A new one is tried
// out, so that what the kernel lacks is known before the first pod.
func openBridge(root string, held map[string]record) (_ *bridge, err error) {
	host, err := openRTNetlink()
	if err != nil {
		return nil, err
	}
	_, noIPv6 := os.Stat(ipv6Settings)
	b := &bridge{name: runtime.RootName(root), host: host, ipv6: noIPv6 == nil}
	defer func() {
		if err != nil {
			b.undo()
		}
	}()
	link, err := netlink.LinkByName(b.name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		link, err = b.create(root)
	}
	if err != nil {
		return nil, err
	}
	b.index, b.mtu = link.Attrs().Index, link.Attrs().MTU
	if err := b.findSubnet(root, link, held); err != nil {
		return nil, err
	}
	b.address = gateway(b.subnet)
	own := &netlink.Addr{IPNet: &net.IPNet{IP: b.address.AsSlice(), Mask: net.CIDRMask(subnetBits, 32)}}
	if err := netlink.AddrReplace(link, own); err != nil {
		return nil, fmt.Errorf("address of %s: %w", b.name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("%s: %w", b.name, err)
	}
	if err := b.fixPods(); err != nil {
		return nil, err
	}
	if b.made {
		if err := b.try(); err != nil {
			return nil, err
		}
		if err := b.adopt(held); err != nil {
			return nil, err
		}
	}
	return b, forward()
}

func (b *bridge) create(root string) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = b.name
	attrs.HardwareAddr = hardwareAddressOf(b.name)
	attrs.MTU = uplinkMTU()
	snooping := false
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}); err != nil {
		return nil, fmt.Errorf("make %s: %w", b.name, err)
	}
	b.made = true
	// Nobody speaks IPv6 here: no address, no router solicitations.
	if err := withoutIPv6(b.name); err != nil {
		return nil, err
	}
	return netlink.LinkByName(b.name)
}

// uplinkMTU returns the MTU of the interface of the default route, so that no packet is fragmented; 0 if there is none.
func uplinkMTU() int {
	routes, err := dump(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return 0
	}
	for _, r := range routes {
		if !isDefault(r) {
			continue
		}
		if link, err := netlink.LinkByIndex(r.LinkIndex); err == nil {
			return link.Attrs().MTU
		}
	}
	return 0
}

func isDefault(r netlink.Route) bool {
	if r.Dst == nil {
		return true
	}
	ones, _ := r.Dst.Mask.Size()
	return ones == 0
}

// findSubnet sets the bridge's subnet: the one that it already has, or else that of a pod on record, or else a new one.
func (b *bridge) findSubnet(root string, link netlink.Link, held map[string]record) error {
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_V4) })
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP.To4()); ok {
			if subnet := netip.PrefixFrom(ip, subnetBits).Masked(); gateway(subnet) == ip {
				b.subnet = subnet
				return nil
			}
		}
	}
	taken, err := hostPrefixes()
	if err != nil {
		return err
	}
	for _, r := range held {
		if subnet := netip.PrefixFrom(r.Address, subnetBits).Masked(); subnet.IsValid() && !overlapsAny(subnet, taken) {
			b.subnet = subnet
			return nil
		}
	}
	b.subnet, err = chooseSubnet(root, taken)
	return err
}

// hostPrefixes returns the networks that the host already has routes or addresses in.
func hostPrefixes() ([]netip.Prefix, error) {
	var out []netip.Prefix
	routes, err := dump(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("routes of the host: %w", err)
	}
	for _, r := range routes {
		if !isDefault(r) {
			out = appendPrefix(out, r.Dst)
		}
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("addresses of the host: %w", err)
	}
	for _, a := range addrs {
		out = appendPrefix(out, a.IPNet)
	}
	// Resolvers too, which may lie behind the default route.
	resolv, _ := os.ReadFile("/etc/resolv.conf")
	for line := range strings.Lines(string(resolv)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			if ip, err := netip.ParseAddr(f[1]); err == nil {
				out = append(out, netip.PrefixFrom(ip, ip.BitLen()))
			}
		}
	}
	return out, nil
}

func appendPrefix(list []netip.Prefix, n *net.IPNet) []netip.Prefix {
	ip, ok := netip.AddrFromSlice(n.IP.To4())
	ones, bits := n.Mask.Size()
	if !ok || bits != 32 {
		return list
	}
	return append(list, netip.PrefixFrom(ip, ones).Masked())
}

// try creates and removes a link: some kernels support none.
func (b *bridge) try() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = strings.Replace(b.name, "jobd-", "jobt-", 1)
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: strings.Replace(b.name, "jobd-", "jobu-", 1)}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("make a pair of virtual interfaces: %w", err)
	}
	return netlink.LinkDel(link)
}

// adopt puts the links of pods whose bridge was removed on the new one, which knows nothing of them.
func (b *bridge) adopt(held map[string]record) error {
	for _, r := range held {
		link, err := netlink.LinkByName(linkName(r.Address))
		if errors.As(err, new(netlink.LinkNotFoundError)) {
			continue
		} else if err != nil {
			return err
		}
		name, index := link.Attrs().Name, link.Attrs().Index
		if err := netlink.LinkSetMasterByIndex(link, b.index); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := b.host.do(b.setPort(name), fixPort(index, r.Address)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// undo removes what this run has made, if the rest turns out to be impossible.
func (b *bridge) undo() {
	if b.made {
		_ = remove(b.name)
	}
	b.host.close()
}

// forward enables IPv4 forwarding. It is never disabled again, since others on the host may have come to rely on it.
func forward() error {
	if err := set("/proc/sys/net/ipv4/ip_forward", "1"); err != nil {
		return fmt.Errorf("forwarding: %w", err)
	}
	return nil
}

// set changes a setting of the kernel unless it already has the value: some settings cannot be written.
func set(setting, value string) error {
	now, err := os.ReadFile(setting)
	if err != nil || string(bytes.TrimSpace(now)) == value {
		return err
	}
	return os.WriteFile(setting, []byte(value), 0)
}

// linkName returns the name of the host's end of a pod's link. Daemons do not share subnets, and so they share no
// names.
func linkName(pod netip.Addr) string { return fmt.Sprintf("jobd%x", pod.AsSlice()) }

// hardwareAddress returns the hardware address of a pod's interface. It follows from the IP address, so that no
// neighbour's cache goes stale.
func hardwareAddress(pod netip.Addr) net.HardwareAddr {
	return append(net.HardwareAddr{0x0a, 0x58}, pod.AsSlice()...)
}

// BridgePorts is how many pods with a network of their own a bridge takes, by the kernel's BR_MAX_PORTS.
const BridgePorts = 1<<10 - 1

// connect attaches the thread's new namespace to the bridge.
func (b *bridge) connect(pod netip.Addr) error {
	inside, err := openRTNetlink()
	if err != nil {
		return err
	}
	defer inside.close()
	ns, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(ns)
	err = newLinksWithoutIPv6(func() error {
		err := b.addLink(pod, ns)
		if errors.Is(err, unix.EEXIST) {
			// The link is left from an attempt that a crash cut short, and the kernel is about to remove it.
			if err := b.deleteLink(linkName(pod)); err != nil {
				return err
			}
			err = b.addLink(pod, ns)
		}
		return err
	})
	if errors.Is(err, unix.EXFULL) {
		return fmt.Errorf("%w: no more than %d pods are connected to bridge %s", err, BridgePorts, b.name)
	} else if err != nil {
		return fmt.Errorf("link %s: %w", linkName(pod), err)
	}
	eth, err := inside.index(podInterface)
	if err != nil {
		return err
	}
	changes := []change{loopbackUp(), linkUp(podInterface), b.addAddress(eth, pod), b.fixGateway(eth)}
	if b.leads {
		changes = append(changes, b.addGatewayRoute(eth), addLocalRoute(eth))
	}
	return inside.do(append(changes, b.addDefaultRoute(eth))...)
}

// addLink creates both ends of a pod's link: one up on the bridge, the other as eth0 in the namespace that a file
// descriptor refers to.
func (b *bridge) addLink(pod netip.Addr, ns int) error {
	name := linkName(pod)
	if err := b.host.do(b.newLink(pod, ns), b.setPort(name), linkUp(name)); err != nil {
		return err
	}
	port, err := b.host.index(name)
	if err != nil {
		return err
	}
	return b.host.do(fixPort(port, pod))
}

func (b *bridge) newLink(pod netip.Addr, ns int) change {
	mtu, one := nl.Uint32Attr(uint32(b.mtu)), nl.Uint32Attr(1)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("veth"))
	peer := info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.VETH_INFO_PEER, nil)
	nl.NewIfInfomsgChild(peer, unix.AF_UNSPEC)
	peer.AddRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(podInterface))
	peer.AddRtAttr(unix.IFLA_ADDRESS, hardwareAddress(pod))
	peer.AddRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(ns)))
	peer.AddRtAttr(unix.IFLA_MTU, mtu)
	// The kernel uses one queue of each end. Unless it is told so it makes one for each processor first.
	peer.AddRtAttr(unix.IFLA_NUM_TX_QUEUES, one)
	peer.AddRtAttr(unix.IFLA_NUM_RX_QUEUES, one)
	return newChange("add", unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		nl.NewIfInfomsg(unix.AF_UNSPEC),
		nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(linkName(pod))),
		nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(b.index))),
		nl.NewRtAttr(unix.IFLA_MTU, mtu),
		nl.NewRtAttr(unix.IFLA_NUM_TX_QUEUES, one),
		nl.NewRtAttr(unix.IFLA_NUM_RX_QUEUES, one),
		info)
}

// setPort lets the bridge send a frame back through the link that it has come in by: on a host where netfilter sees
// bridged frames (br_netfilter) a pod that is its own endpoint of a Service needs that. No frame to an address that nobody has comes
// to the pod: fixPort says where each is. And it keeps the kernel from giving the host's end of the link an IPv6 address, which it
// would announce to the pod.
func (b *bridge) setPort(link string) change {
	c := newChange("set", unix.RTM_NEWLINK, 0,
		nl.NewIfInfomsg(unix.AF_UNSPEC), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(link)))
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_SLAVE_KIND, nl.NonZeroTerminated("bridge"))
	port := info.AddRtAttr(nl.IFLA_INFO_SLAVE_DATA, nil)
	port.AddRtAttr(nl.IFLA_BRPORT_MODE, nl.Uint8Attr(1))
	port.AddRtAttr(nl.IFLA_BRPORT_UNICAST_FLOOD, nl.Uint8Attr(0))
	c.request.AddData(info)
	if b.ipv6 {
		families := nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
		families.AddRtAttr(unix.AF_INET6, nil).AddRtAttr(unix.IFLA_INET6_ADDR_GEN_MODE, nl.Uint8Attr(noAddress))
		c.request.AddData(families)
	}
	return c
}

func (b *bridge) deleteLink(name string) error {
	err := b.host.do(newChange("remove link "+name, unix.RTM_DELLINK, 0,
		nl.NewIfInfomsg(unix.AF_UNSPEC), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name))))
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

func linkUp(name string) change {
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Flags, message.Change = unix.IFF_UP, unix.IFF_UP
	return newChange(name+" up", unix.RTM_NEWLINK, 0, message, nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
}

func loopbackUp() change { return linkUp("lo") }

func (b *bridge) addAddress(link int, pod netip.Addr) change {
	message := nl.NewIfAddrmsg(unix.AF_INET)
	message.Prefixlen, message.Index = subnetBits, uint32(link)
	subnet := netip.PrefixFrom(pod, subnetBits).Masked()
	broadcast := add(subnet.Addr(), 1<<(32-subnetBits)-1)
	c := newChange(fmt.Sprintf("address %s", pod), unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, message,
		nl.NewRtAttr(unix.IFA_LOCAL, pod.AsSlice()),
		nl.NewRtAttr(unix.IFA_ADDRESS, pod.AsSlice()),
		nl.NewRtAttr(unix.IFA_BROADCAST, broadcast.AsSlice()))
	if b.leads {
		c.request.AddData(nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(unix.IFA_F_NOPREFIXROUTE)))
	}
	return c
}

func (b *bridge) addDefaultRoute(link int) change {
	message := nl.NewRtMsg()
	message.Family = unix.AF_INET
	return newChange("default route", unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, message,
		nl.NewRtAttr(unix.RTA_GATEWAY, b.address.AsSlice()), nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(link))))
}
