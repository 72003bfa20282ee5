package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/pins"
	"github.com/jobd/jobd/runtime/thread"
)

// elsewhere is an address that is not the host's.
const elsewhere = "93.184.216.34"

// giveAddress adds an address to the host's loopback interface.
func giveAddress(t *testing.T, address string) (takeAway func()) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	a := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(32, 32)}}
	if err := netlink.AddrAdd(lo, a); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := netlink.AddrDel(lo, a); err != nil {
			t.Fatal(err)
		}
	}
}

// openElsewhere connects the host to another machine, 198.51.100.1 to 198.51.100.2, which has the address elsewhere
// too, and returns the other machine's network.
func openElsewhere(t *testing.T) Attachment {
	t.Helper()
	p := namespaces{pins: &pins.Pins{}, dir: t.TempDir()}
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	give := func(link netlink.Link, addresses ...string) error {
		for _, a := range addresses {
			parsed, err := netlink.ParseAddr(a)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(link, parsed); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(link)
	}
	if err := p.network(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "uplink"
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: "uplink", PeerNamespace: netlink.NsFd(int(here.Fd()))}
		if err := netlink.LinkAdd(pair); err != nil {
			return err
		}
		return give(pair, "198.51.100.2/24", elsewhere+"/32")
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.release(); err != nil {
			t.Error(err)
		}
	})
	link, err := netlink.LinkByName("uplink")
	if err != nil {
		t.Fatal(err)
	}
	if err := give(link, "198.51.100.1/24"); err != nil {
		t.Fatal(err)
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP("198.51.100.2")}); err != nil {
		t.Fatal(err)
	}
	return Attachment{Namespaces: map[specs.LinuxNamespaceType]string{specs.NetworkNamespace: p.path("net")}}
}

// follow keeps the rules of a network up to date with the addresses of the host, which is the thread's network, until
// the test ends.
func follow(t *testing.T, n *Network) {
	t.Helper()
	host, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- thread.Run(func() error {
			defer host.Close()
			if err := unix.Setns(int(host.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			return n.FollowAddresses(ctx)
		})
	}()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("follow the host's addresses: %v", err)
		}
	})
}

// followed waits until the rules of a network know the host's addresses.
func followed(t *testing.T, n *Network) {
	t.Helper()
	want, err := hostAddresses()
	if err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		n.mu.Lock()
		now := slices.Clone(n.bridge.listed)
		n.mu.Unlock()
		if now == nil || slices.Equal(now, want) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("the rules list %v, the host has %v", now, want)
		}
	}
}

// arrives reports whether a handmade datagram that a pod sends to the gateway reaches a socket of the host. A proper
// one is sent after it, so that one always arrives.
func arrives(t *testing.T, n *Network, a Attachment, from, to netip.Addr) bool {
	t.Helper()
	socket, err := net.ListenPacket("udp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	port := socket.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	bridge, err := netlink.LinkByName(n.bridge.name)
	if err != nil {
		t.Fatal(err)
	}
	pod := netip.MustParseAddr(a.IPs[0])
	if err := inside(t, a, func() error {
		for _, d := range [][]byte{
			datagram(netip.AddrPortFrom(from, 1000), netip.AddrPortFrom(to, port), "forged"),
			datagram(netip.AddrPortFrom(pod, 1000), netip.AddrPortFrom(n.Gateway(), port), "proper"),
		} {
			if err := sendFrame(bridge.Attrs().HardwareAddr, unix.ETH_P_IP, d); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
	heard := make([]byte, 100)
	length, _, err := socket.ReadFrom(heard)
	if err != nil {
		t.Fatal(err)
	}
	return string(heard[:length]) == "forged"
}

// Ports of pods at the host's 127.0.0.1 need a setting of the kernel that would let pods in there (CVE-2020-8558).
func TestPodDoesNotReachTheLoopbackOfTheHost(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		client := setUp(t, n, newPod("client", 1))
		pod := netip.MustParseAddr(client.IPs[0])
		setting := filepath.Join("/proc/sys/net/ipv4/conf", n.bridge.name, "route_localnet")
		expect := func(when, want string) {
			t.Helper()
			if arrives(t, n, client, pod, netip.MustParseAddr("127.0.0.1")) {
				t.Errorf("%s a pod reaches 127.0.0.1 of the host", when)
			}
			if arrives(t, n, client, netip.MustParseAddr("127.0.0.2"), n.Gateway()) {
				t.Errorf("%s a pod reaches the host from a loopback address", when)
			}
			if got, err := os.ReadFile(setting); err != nil || string(got) != want+"\n" {
				t.Errorf("%s route_localnet is %q, %v", when, got, err)
			}
		}
		expect("before there is a port of the host", "0")
		setUp(t, n, withPort("server", "", 8080, corev1.ProtocolTCP))
		expect("while there is a port of the host", "1")
		n = open(t, root, Bridge)
		expect("after a restart", "1")
		if err := n.TearDown("server"); err != nil {
			t.Fatal(err)
		}
		expect("when the port of the host is gone", "0")
		// Others on the host may want the setting.
		if err := os.WriteFile(setting, []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
		expect("with route_localnet set by others", "1")
	})
}

func TestPodDoesNotPassForOthers(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		if err := n.bridge.guardFrames(); err != nil {
			t.Skipf("needs a kernel whose nf_tables sees bridged frames: %v", err)
		}
		thief, victim := setUp(t, n, newPod("thief", 1)), setUp(t, n, newPod("victim", 1))
		gateway := n.Gateway()
		thiefIP, victimIP := netip.MustParseAddr(thief.IPs[0]), netip.MustParseAddr(victim.IPs[0])
		otherIP := netip.MustParseAddr(setUp(t, n, newPod("other", 1)).IPs[0])
		freeIP := otherIP.Next()
		thiefMAC, victimMAC, otherMAC := hardwareAddress(thiefIP), hardwareAddress(victimIP), hardwareAddress(otherIP)
		gatewayMAC := hardwareAddressOf(n.bridge.name)
		bridge, err := netlink.LinkByName(n.bridge.name)
		if err != nil || bridge.Attrs().HardwareAddr.String() != gatewayMAC.String() {
			t.Fatalf("the gateway is at %v, want %s: %v", bridge, gatewayMAC, err)
		}
		all := net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
		allIPv6 := net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
		advertisement := routerAdvertisement()
		dns := datagram(netip.AddrPortFrom(gateway, 53), netip.AddrPortFrom(victimIP, 1000), "forged")
		dhcp := datagram(netip.AddrPortFrom(thiefIP, 67), netip.MustParseAddrPort("255.255.255.255:68"), "forged")
		greeting := datagram(netip.AddrPortFrom(thiefIP, 1000), netip.AddrPortFrom(victimIP, 1000), "hello")
		asOther := datagram(netip.AddrPortFrom(otherIP, 1000), netip.AddrPortFrom(victimIP, 1000), "forged")
		asFree := datagram(netip.AddrPortFrom(freeIP, 1000), netip.AddrPortFrom(victimIP, 1000), "forged")
		for name, f := range map[string]struct {
			from, to net.HardwareAddr
			kind     uint16
			payload  []byte
		}{
			"a router advertisement":                       {thiefMAC, allIPv6, unix.ETH_P_IPV6, advertisement},
			"a router advertisement in a frame with a tag": {thiefMAC, allIPv6, unix.ETH_P_8021Q, tagged(unix.ETH_P_IPV6, advertisement)},
			"a router advertisement in a frame with two": {
				thiefMAC, allIPv6, unix.ETH_P_8021AD, tagged(unix.ETH_P_8021Q, tagged(unix.ETH_P_IPV6, advertisement)),
			},
			"the gateway's address in ARP": {thiefMAC, all, unix.ETH_P_ARP, arpReply(gateway, thiefMAC, victimIP, victimMAC)},
			"the gateway's address in ARP, behind a tag": {
				thiefMAC, all, unix.ETH_P_8021Q, tagged(unix.ETH_P_ARP, arpReply(gateway, thiefMAC, victimIP, victimMAC)),
			},
			"an answer of the name server":               {thiefMAC, victimMAC, unix.ETH_P_IP, dns},
			"an answer of the name server, behind a tag": {thiefMAC, victimMAC, unix.ETH_P_8021Q, tagged(unix.ETH_P_IP, dns)},
			"the gateway's hardware address":             {gatewayMAC, victimMAC, unix.ETH_P_IP, greeting},
			"a DHCP server":                              {thiefMAC, all, unix.ETH_P_IP, dhcp},
			"another pod's address in ARP":               {thiefMAC, all, unix.ETH_P_ARP, arpReply(otherIP, thiefMAC, victimIP, victimMAC)},
			"another pod's address in ARP, behind a tag": {
				thiefMAC, all, unix.ETH_P_8021Q, tagged(unix.ETH_P_ARP, arpReply(otherIP, thiefMAC, victimIP, victimMAC)),
			},
			"another pod's hardware address in ARP":      {thiefMAC, all, unix.ETH_P_ARP, arpReply(thiefIP, otherMAC, victimIP, victimMAC)},
			"the address of a pod to come in ARP":        {thiefMAC, all, unix.ETH_P_ARP, arpReply(freeIP, thiefMAC, victimIP, victimMAC)},
			"ARP as another pod":                         {otherMAC, all, unix.ETH_P_ARP, arpReply(otherIP, otherMAC, victimIP, victimMAC)},
			"another pod's address":                      {thiefMAC, victimMAC, unix.ETH_P_IP, asOther},
			"another pod's address, behind a tag":        {thiefMAC, victimMAC, unix.ETH_P_8021Q, tagged(unix.ETH_P_IP, asOther)},
			"another pod's address and hardware address": {otherMAC, victimMAC, unix.ETH_P_IP, asOther},
			"another pod's hardware address":             {otherMAC, victimMAC, unix.ETH_P_IP, greeting},
			"the address of a pod to come":               {thiefMAC, victimMAC, unix.ETH_P_IP, asFree},
			"an address of elsewhere": {
				thiefMAC, victimMAC, unix.ETH_P_IP,
				datagram(netip.MustParseAddrPort(elsewhere+":53"), netip.AddrPortFrom(victimIP, 1000), "forged"),
			},
			"a protocol that nobody has on a bridge of jobd": {thiefMAC, all, unix.ETH_P_PPP_DISC, []byte("forged")},
		} {
			t.Run(name, func(t *testing.T) {
				var socket int
				if err := inside(t, victim, func() error { socket = frames(t); return nil }); err != nil {
					t.Fatal(err)
				}
				if err := inside(t, thief, func() error {
					if err := sendFrameFrom(f.from, f.to, f.kind, f.payload); err != nil {
						return err
					}
					return sendFrame(victimMAC, unix.ETH_P_IP, greeting)
				}); err != nil {
					t.Fatal(err)
				}
				for buffer := make([]byte, 2000); ; {
					length, _, err := unix.Recvfrom(socket, buffer, 0)
					if err != nil {
						t.Fatal(err)
					}
					heard := buffer[:length]
					if bytes.Equal(heard[6:12], thiefMAC) && bytes.HasSuffix(heard, greeting) {
						return
					}
					if bytes.HasSuffix(heard, f.payload[max(0, len(f.payload)-20):]) {
						t.Errorf("it arrives: %x", heard)
					}
				}
			})
		}
	})
}

// A pod has no IPv6 except at its loopback interface, even where nothing guards the frames (CVE-2020-10749), and its
// knowledge of where the gateway is cannot be changed by others.
func TestPodListensToNoRouter(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		if err := removeTable(n.bridge.name, nftables.TableFamilyBridge); err != nil {
			t.Fatal(err)
		}
		thief, victim := setUp(t, n, newPod("thief", 1)), setUp(t, n, newPod("victim", 1))
		thiefMAC, victimIP := hardwareAddress(netip.MustParseAddr(thief.IPs[0])), netip.MustParseAddr(victim.IPs[0])
		socket := -1
		if err := inside(t, victim, func() error { socket = frames(t); return nil }); err != nil {
			t.Fatal(err)
		}
		if err := inside(t, thief, func() error {
			if err := sendFrame(net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, unix.ETH_P_IPV6, routerAdvertisement()); err != nil {
				return err
			}
			forged := arpReply(n.Gateway(), thiefMAC, victimIP, hardwareAddress(victimIP))
			return sendFrame(hardwareAddress(victimIP), unix.ETH_P_ARP, forged)
		}); err != nil {
			t.Fatal(err)
		}
		for buffer := make([]byte, 2000); binary.BigEndian.Uint16(buffer[12:]) != unix.ETH_P_ARP; {
			if _, _, err := unix.Recvfrom(socket, buffer, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := inside(t, victim, func() error {
			l, err := net.Listen("tcp6", "[::1]:0")
			if err != nil {
				return fmt.Errorf("::1: %w", err)
			}
			l.Close()
			eth, err := netlink.LinkByName(podInterface)
			if err != nil {
				return err
			}
			addresses, err := netlink.AddrList(eth, netlink.FAMILY_V6)
			if err != nil || len(addresses) > 0 {
				t.Errorf("addresses of IPv6: %v, %v", addresses, err)
			}
			routes, err := netlink.RouteList(eth, netlink.FAMILY_V6)
			if err != nil || len(routes) > 0 {
				t.Errorf("routes of IPv6: %v, %v", routes, err)
			}
			neighbours, err := netlink.NeighList(eth.Attrs().Index, netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			if i := slices.IndexFunc(neighbours, func(known netlink.Neigh) bool {
				return known.IP.Equal(n.Gateway().AsSlice()) && known.State == netlink.NUD_PERMANENT &&
					bytes.Equal(known.HardwareAddr, hardwareAddressOf(n.bridge.name))
			}); i < 0 {
				t.Errorf("the gateway's place is not fixed: %v", neighbours)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

// A frame to an address that is for bridges themselves does not come past the rules to the host: neither as another pod
// nor with what nobody may send.
func TestPodDoesNotReachTheHostPastTheBridge(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		if err := n.bridge.guardFrames(); err != nil {
			t.Skipf("needs a kernel whose nf_tables sees bridged frames: %v", err)
		}
		thief, other := setUp(t, n, newPod("thief", 1)), setUp(t, n, newPod("other", 1))
		socket, err := net.ListenPacket("udp4", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		to := netip.AddrPortFrom(n.Gateway(), socket.LocalAddr().(*net.UDPAddr).AddrPort().Port())
		if err := inside(t, thief, func() error {
			for last := range byte(16) {
				bridges := net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, last}
				for _, from := range []Attachment{thief, other} {
					d := datagram(netip.AddrPortFrom(addressOf(from), 1000), to, fmt.Sprintf("to %s from %s", bridges, from.IPs[0]))
					if err := sendFrame(bridges, unix.ETH_P_IP, d); err != nil {
						return err
					}
				}
				if err := sendFrame(bridges, unix.ETH_P_IPV6, routerAdvertisement()); err != nil {
					return err
				}
			}
			proper := datagram(netip.AddrPortFrom(addressOf(thief), 1000), to, "proper")
			return sendFrame(hardwareAddressOf(n.bridge.name), unix.ETH_P_IP, proper)
		}); err != nil {
			t.Fatal(err)
		}
		hears(t, socket, "proper")
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V6)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range routes {
			if r.Protocol == unix.RTPROT_RA {
				t.Errorf("the host has taken a route from a pod: %v", r)
			}
		}
	})
}
