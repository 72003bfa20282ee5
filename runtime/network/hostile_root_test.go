package network

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// elsewhere is an address that is not the host's.
const elsewhere = "93.184.216.34"

// giveAddress gives the host an address on its loopback interface.
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

// openElsewhere connects the host with another machine, 198.51.100.1 with 198.51.100.2, which has the address elsewhere
// too, and returns the other machine's network.
func openElsewhere(t *testing.T) Attachment {
	t.Helper()
	p := pins{dir: t.TempDir()}
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

// withPort is a pod that asks for a port of the host.
func withPort(uid, hostIP string, hostPort int32, protocol corev1.Protocol) *corev1.Pod {
	p := newPod(uid, 1)
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{
		{Protocol: protocol, ContainerPort: 80, HostPort: hostPort, HostIP: hostIP},
	}
	return p
}

// refused fails unless a pod gets no network, and an error that says certain words.
func refused(t *testing.T, n *Network, p *corev1.Pod, words string) {
	t.Helper()
	a, err := n.SetUp(p)
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("pod %s got %+v, %v; want an error that says %q", p.UID, a, err, words)
	}
	if held, _ := n.Held(); strings.Contains(strings.Join(held, " "), string(p.UID)) {
		t.Errorf("something is set up for pod %s, which was refused", p.UID)
	}
}

func TestHostPortOfAnAddressThatIsNotTheHosts(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		other := openElsewhere(t)
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		client := setUp(t, n, newPod("client", 1))
		refused(t, n, withPort("far", elsewhere, 80, corev1.ProtocolTCP), "hostIP "+elsewhere+" is not an address of this host")
		refused(t, n, withPort("pod", client.IPs[0], 80, corev1.ProtocolTCP), "is not an address of this host")

		// Nor does it when the host had the address and lost it.
		takeAway := giveAddress(t, elsewhere)
		thief := setUp(t, n, withPort("thief", elsewhere, 80, corev1.ProtocolTCP))
		answer(t, thief, thief.IPs[0]+":80", "thief")
		if heard, err := ask(elsewhere + ":80"); err != nil || !strings.HasPrefix(heard, "thief") {
			t.Errorf("while the address is the host's: heard %q, %v", heard, err)
		}
		takeAway()
		answer(t, other, elsewhere+":80", "elsewhere")
		if heard, err := ask(elsewhere + ":80"); err != nil || !strings.HasPrefix(heard, "elsewhere") {
			t.Errorf("the host heard %q, %v", heard, err)
		}
		if err := inside(t, client, func() error {
			heard, err := ask(elsewhere + ":80")
			if err == nil && !strings.HasPrefix(heard, "elsewhere") {
				err = fmt.Errorf("heard %q", heard)
			}
			return err
		}); err != nil {
			t.Errorf("a pod: %v", err)
		}
	})
}

// A port of all addresses leaves alone what goes through the host, and what is the daemon's own.
func TestHostPortTakesNothingOfOthers(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		other := openElsewhere(t)
		listen := netip.MustParseAddrPort("127.0.0.1:6443")
		n, err := Open(Options{
			Root: root, State: root, Mode: Bridge, Logger: slog.New(slog.DiscardHandler),
			Reserved: []Reserved{{corev1.ProtocolTCP, listen, "jobd's API"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer n.remove(t, root)
		client := setUp(t, n, newPod("client", 1))
		gateway := n.Gateway().String()

		for _, port := range []int32{53, 6443} {
			for _, at := range []string{gateway, "127.0.0.1"} {
				l, err := net.Listen("tcp4", fmt.Sprintf("%s:%d", at, port))
				if err != nil {
					t.Fatal(err)
				}
				greet(t, l, "host at "+at)
			}
		}
		answer(t, other, elsewhere+":53", "elsewhere")
		names := withPort("names", "", 53, corev1.ProtocolTCP)
		udp := names.Spec.Containers[0].Ports[0]
		udp.Protocol = corev1.ProtocolUDP
		names.Spec.Containers[0].Ports = append(names.Spec.Containers[0].Ports, udp)
		answer(t, setUp(t, n, names), "0.0.0.0:80", "pod")
		answer(t, setUp(t, n, withPort("one", "198.51.100.1", 6443, corev1.ProtocolTCP)), "0.0.0.0:80", "pod")

		hears := func(a Attachment, address, want string) {
			t.Helper()
			if err := inside(t, a, func() error {
				heard, err := ask(address)
				if err == nil && !strings.HasPrefix(heard, want+" to") {
					err = fmt.Errorf("heard %q, want %q", heard, want)
				}
				return err
			}); err != nil {
				t.Errorf("%s: %v", address, err)
			}
		}
		own := Attachment{Namespaces: map[specs.LinuxNamespaceType]string{
			specs.NetworkNamespace: fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()),
		}}
		hears(client, gateway+":53", "host at "+gateway)
		hears(client, elsewhere+":53", "elsewhere")
		hears(client, "198.51.100.1:53", "pod")
		hears(other, "198.51.100.1:53", "pod")
		hears(own, gateway+":53", "host at "+gateway)
		hears(own, "127.0.0.1:53", "pod") // as in a cluster, it has all addresses of the host
		hears(own, "127.0.0.1:6443", "host at 127.0.0.1")
		hears(other, "198.51.100.1:6443", "pod")

		// Nor does it reach over to another daemon's name server.
		second := t.TempDir()
		m := open(t, second, Bridge)
		defer m.remove(t, second)
		l, err := net.Listen("tcp4", m.Gateway().String()+":53")
		if err != nil {
			t.Fatal(err)
		}
		greet(t, l, "second")
		stranger := setUp(t, m, newPod("stranger", 1))
		hears(stranger, m.Gateway().String()+":53", "second")
		hears(stranger, "198.51.100.1:53", "pod")

		refused(t, n, withPort("gateway-names", gateway, 53, corev1.ProtocolUDP), "the name server of the pods has it")
		refused(t, n, withPort("gateway-api", gateway, 443, corev1.ProtocolTCP), "the API for pods has it")
		refused(t, n, withPort("listen", "127.0.0.1", 6443, corev1.ProtocolTCP), "jobd's API has it at 127.0.0.1:6443")
		refused(t, n, withPort("listen-all", "", 6443, corev1.ProtocolTCP), "jobd's API has it at 127.0.0.1:6443")

		// A daemon that is told to listen where a pod has been listening all the time gets its port.
		_, err = Open(Options{
			Root: root, State: root, Mode: Bridge, Logger: slog.New(slog.DiscardHandler),
			Reserved: []Reserved{{corev1.ProtocolTCP, netip.MustParseAddrPort("127.0.0.1:53"), "jobd's API"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		hears(own, "127.0.0.1:53", "host at 127.0.0.1")
		hears(other, "198.51.100.1:53", "pod")
	})
}

// One pod with many ports is no burden to others.
func TestThousandsOfHostPorts(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		many := newPod("many", 1)
		for port := int32(1000); port < 60000; port++ {
			many.Spec.Containers[0].Ports = append(many.Spec.Containers[0].Ports,
				corev1.ContainerPort{Protocol: corev1.ProtocolTCP, ContainerPort: port, HostPort: port})
		}
		a := setUp(t, n, many)
		answer(t, a, a.IPs[0]+":59999", "many")
		one := setUp(t, n, withPort("one", "", 80, corev1.ProtocolTCP))
		answer(t, one, one.IPs[0]+":80", "one")
		for _, port := range []string{"59999", "80"} {
			if _, err := ask("127.0.0.1:" + port); err != nil {
				t.Errorf("port %s: %v", port, err)
			}
		}
	})
}

// datagram is an IPv4 packet with a UDP datagram.
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

// arrives reports whether a datagram that a pod sends to the gateway by hand comes through to a socket of the host at
// its port. A proper one is sent behind it, so that there is always one.
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
		// Somebody else may want it so.
		if err := os.WriteFile(setting, []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
		expect("with route_localnet set by others", "1")
	})
}
