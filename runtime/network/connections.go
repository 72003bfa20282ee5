package network

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
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
// what their clients send next reaches the pod.
func (b *bridge) takeConnections(r record) error {
	ports := map[portNumber][]hostPort{}
	for _, p := range r.Ports {
		if p.Protocol == corev1.ProtocolUDP {
			ports[p.number()] = append(ports[p.number()], p)
		}
	}
	if len(ports) == 0 {
		return nil
	}
	addresses, err := hostAddresses()
	if err != nil {
		return err
	}
	return forget(func(f *netlink.ConntrackFlow) bool {
		return f.Forward.Protocol == unix.IPPROTO_UDP && !f.Reverse.SrcIP.Equal(r.Address.AsSlice()) &&
			isLocal(addresses, f.Forward.DstIP) &&
			slices.ContainsFunc(ports[portNumber{corev1.ProtocolUDP, f.Forward.DstPort}], func(p hostPort) bool {
				return !p.HostIP.IsValid() || f.Forward.DstIP.Equal(p.HostIP.AsSlice())
			})
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
