package network

import (
	"errors"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The kernel decides once for each connection whether a port of the host leads to a pod, and for a protocol without
// connections, such as UDP, it tracks one that lasts as long as somebody sends. So the rules alone are not enough:
// connections that were made under other rules have to end.

// endConnections makes the kernel forget the connections of a pod that is gone.
func (b *bridge) endConnections(pod netip.Addr) error {
	return forget(func(f *netlink.ConntrackFlow) bool {
		return f.Reverse.SrcIP.Equal(pod.AsSlice()) || f.Forward.SrcIP.Equal(pod.AsSlice())
	})
}

// takeConnections makes the kernel forget the connections to a pod's ports of the host that lead elsewhere, so that
// what their clients send next reaches the pod: those of UDP, and those that other pods have begun with such a port as their source,
// before the rules kept it from them.
func (b *bridge) takeConnections(r record) error {
	ports := map[uint8][]hostPort{}
	for _, p := range r.Ports {
		ports[protocols[p.Protocol]] = append(ports[protocols[p.Protocol]], p)
	}
	addresses, err := hostAddresses()
	if err != nil {
		return err
	}
	return forget(func(f *netlink.ConntrackFlow) bool {
		leads := func(to net.IP, port uint16) bool {
			return isLocal(addresses, to) && slices.ContainsFunc(ports[f.Forward.Protocol], func(p hostPort) bool {
				return p.HostPort == port && (!p.HostIP.IsValid() || to.Equal(p.HostIP.AsSlice()))
			})
		}
		from, known := netip.AddrFromSlice(f.Forward.SrcIP.To4())
		ofPod := known && b.subnet.Contains(from)
		return f.Forward.Protocol == unix.IPPROTO_UDP && !f.Reverse.SrcIP.Equal(r.Address.AsSlice()) && leads(f.Forward.DstIP, f.Forward.DstPort) ||
			ofPod && leads(f.Reverse.DstIP, f.Reverse.DstPort)
	})
}

// flowFilter implements netlink.CustomConntrackFilter.
type flowFilter func(*netlink.ConntrackFlow) bool

func (f flowFilter) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool { return f(flow) }

// forget removes IPv4 connections from the kernel's table.
func forget(which flowFilter) error {
	handle, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer handle.Close()
	if err := handle.SetSocketTimeout(kernelTimeout); err != nil {
		return err
	}
	for range dumpAttempts {
		// An interrupted dump may have missed some of the table's entries.
		_, err = handle.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, which)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return err
}
