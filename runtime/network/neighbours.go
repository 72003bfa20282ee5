package network

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The kernel has one table of neighbours for all network namespaces, with room for 1024 of those that it has asked for
// (net.ipv4.neigh.default.gc_thresh3), and any pod can fill it with addresses that nobody has. What is fixed does not count, and is
// there when nothing else has room: so the host asks for no pod, and no pod for the gateway.

// fixAtOnce is how many neighbours are fixed with one system call.
const fixAtOnce = 256

// fixPods tells the host where the pods of all addresses of the subnet are: the hardware address follows from the address. So pods
// that start while the table is full reach the host, and what a pod sends to others' addresses by the host takes no room in it. It
// takes the kernel some milliseconds; to write each request anew would take as long again.
func (b *bridge) fixPods() error {
	var pods []netip.Addr
	for pod := gateway(b.subnet).Next(); b.subnet.Contains(pod.Next()); pod = pod.Next() {
		pods = append(pods, pod)
	}
	for some := range slices.Chunk(pods, fixAtOnce) {
		first, last := b.place(some[0]), b.place(some[len(some)-1])
		request := first.request.Serialize()
		for _, pod := range some[1:] {
			at := len(first.more)
			first.more = append(first.more, request...)
			copy(first.more[at+addressOffset:], pod.AsSlice())
			copy(first.more[at+placeOffset:], hardwareAddress(pod))
		}
		if err := b.host.do(first, last); err != nil {
			return err
		}
	}
	return nil
}

// place tells the host where a pod is.
func (b *bridge) place(pod netip.Addr) change { return neighbour(b.index, pod, hardwareAddress(pod)) }

// Where the addresses are in a request of neighbour.
const (
	addressOffset = unix.SizeofNlMsghdr + unix.SizeofNdMsg + unix.SizeofRtAttr
	placeOffset   = addressOffset + 4 + unix.SizeofRtAttr
)

// fixGateway tells a pod's namespace where the gateway is, so that no neighbour can tell it otherwise.
func (b *bridge) fixGateway(link int) change {
	return neighbour(link, b.address, hardwareAddressOf(b.name))
}

func neighbour(link int, address netip.Addr, at net.HardwareAddr) change {
	return newChange(fmt.Sprintf("neighbour %s", address), unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE,
		&netlink.Ndmsg{Family: unix.AF_INET, Index: uint32(link), State: netlink.NUD_PERMANENT, Type: unix.RTN_UNICAST},
		nl.NewRtAttr(unix.NDA_DST, address.AsSlice()), nl.NewRtAttr(unix.NDA_LLADDR, at))
}

// fixPort tells the bridge by which of its ports a pod is reached. It would learn that from the pod's first frame, and forget it, and
// send what is for the pod to all others meanwhile.
func fixPort(port int, pod netip.Addr) change {
	return newChange(fmt.Sprintf("port of %s", pod), unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE,
		&netlink.Ndmsg{Family: unix.AF_BRIDGE, Index: uint32(port), State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER},
		nl.NewRtAttr(unix.NDA_LLADDR, hardwareAddress(pod)))
}

// addGatewayRoute makes the gateway a neighbour of a pod, its only one: what it sends to other pods it sends to the gateway, and the
// bridge leads it there (leadToPods). A neighbour that does not answer takes room in the table for seconds.
func (b *bridge) addGatewayRoute(link int) change {
	message := nl.NewRtMsg()
	message.Family, message.Dst_len, message.Scope = unix.AF_INET, 32, unix.RT_SCOPE_LINK
	return newChange("route to the gateway", unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, message,
		nl.NewRtAttr(unix.RTA_DST, b.address.AsSlice()), nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(link))))
}

// lastResort is the metric of a route that comes after all others.
const lastResort = math.MaxUint16

// addLocalRoute keeps what a pod's programs send without routes (SO_DONTROUTE) in the pod: where no route of the link itself fits, the
// kernel takes any address for a neighbour. All else has a route before this one.
func addLocalRoute(link int) change {
	message := nl.NewRtMsg()
	message.Family, message.Type, message.Scope = unix.AF_INET, unix.RTN_LOCAL, unix.RT_SCOPE_HOST
	return newChange("route of last resort", unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, message,
		nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(link))), nl.NewRtAttr(unix.RTA_PRIORITY, nl.Uint32Attr(lastResort)))
}

// leadToPods returns the expressions that give a frame which is for the gateway but in IPv4 for a pod the pod's hardware address.
func (b *bridge) leadToPods(t *table) ([]expr.Any, error) {
	places := &nftables.Set{
		Table: t.table, ID: 2, Name: "places", IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeEtherAddr,
	}
	var all []nftables.SetElement
	for pod := gateway(b.subnet).Next(); b.subnet.Contains(pod.Next()); pod = pod.Next() {
		all = append(all, nftables.SetElement{Key: pod.AsSlice(), Val: hardwareAddress(pod)})
	}
	if err := t.fill(places, all); err != nil {
		return nil, err
	}
	return slices.Concat(frameIs(unix.ETH_P_IP), holds(expr.PayloadBaseLLHeader, 0, hardwareAddressOf(b.name)), []expr.Any{
		&expr.Payload{DestRegister: 2, Base: expr.PayloadBaseNetworkHeader, Offset: destinationOffset, Len: 4},
		&expr.Lookup{SourceRegister: 2, DestRegister: 1, IsDestRegSet: true, SetName: places.Name, SetID: places.ID},
		&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseLLHeader, Len: 6},
	}), nil
}
