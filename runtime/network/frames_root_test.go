package network

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// datagram returns an IPv4 packet with a UDP datagram.
func datagram(from, to netip.AddrPort, payload string) []byte {
	udp := make([]byte, 8, 8+len(payload)) // without a checksum
	binary.BigEndian.PutUint16(udp, from.Port())
	binary.BigEndian.PutUint16(udp[2:], to.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(8+len(payload)))
	ip := make([]byte, 20)
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(20+8+len(payload)))
	copy(ip[sourceOffset:], from.Addr().AsSlice())
	copy(ip[destinationOffset:], to.Addr().AsSlice())
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum))
	return append(append(ip, udp...), payload...)
}

// sendFrame puts a frame on the wire from eth0 of the thread's network, as CAP_NET_RAW lets a pod do.
func sendFrame(to net.HardwareAddr, kind uint16, payload []byte) error {
	eth, err := netlink.LinkByName(podInterface)
	if err != nil {
		return err
	}
	return sendFrameFrom(eth.Attrs().HardwareAddr, to, kind, payload)
}

func sendFrameFrom(from, to net.HardwareAddr, kind uint16, payload []byte) error {
	eth, err := net.InterfaceByName(podInterface)
	if err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	frame := append(append(append([]byte{}, to...), from...), byte(kind>>8), byte(kind))
	address := &unix.SockaddrLinklayer{Ifindex: eth.Index, Halen: 6}
	copy(address.Addr[:], to)
	return unix.Sendto(socket, append(frame, payload...), 0, address)
}

// checksum returns the Internet checksum of some parts together.
func checksum(parts ...[]byte) uint16 {
	sum := uint32(0)
	for _, p := range parts {
		for i := 0; i < len(p); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// routerAdvertisement returns the IPv6 packet of a router that offers all neighbours an address and a default route.
func routerAdvertisement() []byte {
	message := []byte{134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0}
	prefix := make([]byte, 32) // option 3, on-link and for addresses, forever
	prefix[0], prefix[1], prefix[2], prefix[3] = 3, 4, 64, 0xc0
	binary.BigEndian.PutUint32(prefix[4:], 0xffffffff)
	binary.BigEndian.PutUint32(prefix[8:], 0xffffffff)
	copy(prefix[16:], net.ParseIP("2001:db8::"))
	message = append(message, prefix...)
	ip := make([]byte, 40)
	ip[0], ip[6], ip[7] = 0x60, unix.IPPROTO_ICMPV6, 255
	binary.BigEndian.PutUint16(ip[4:], uint16(len(message)))
	copy(ip[8:], net.ParseIP("fe80::1"))
	copy(ip[24:], net.ParseIP("ff02::1"))
	length := []byte{0, 0, 0, byte(len(message)), 0, 0, 0, unix.IPPROTO_ICMPV6}
	binary.BigEndian.PutUint16(message[2:], checksum(ip[8:], length, message))
	return append(ip, message...)
}

// arpReply returns an ARP message that says that an address is at a hardware address.
func arpReply(address netip.Addr, at net.HardwareAddr, to netip.Addr, toHardware net.HardwareAddr) []byte {
	return slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, 2}, at, address.AsSlice(), toHardware, to.AsSlice())
}

// tagged returns a frame's payload behind another VLAN tag, which has only a priority.
func tagged(kind uint16, payload []byte) []byte {
	return append([]byte{0, 0, byte(kind >> 8), byte(kind)}, payload...)
}

// frames opens a socket that receives all frames of eth0 in the thread's network.
func frames(t *testing.T) int {
	t.Helper()
	const all = unix.ETH_P_ALL>>8&0xff | unix.ETH_P_ALL<<8&0xff00
	eth, err := net.InterfaceByName(podInterface)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(socket) })
	if err := unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: all, Ifindex: eth.Index}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60}); err != nil {
		t.Fatal(err)
	}
	return socket
}
