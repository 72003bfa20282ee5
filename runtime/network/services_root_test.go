package network

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/pins"
)

// to returns endpoints of pods at a port.
func to(port uint16, pods ...Attachment) (out []netip.AddrPort) {
	for _, p := range pods {
		out = append(out, netip.AddrPortFrom(netip.MustParseAddr(p.IPs[0]), port))
	}
	return out
}

// virtual returns a port of a Service at one of the network's virtual addresses.
func virtual(n *Network, number uint32, port uint16, endpoints ...netip.AddrPort) ServicePort {
	at := netip.AddrPortFrom(add(n.ServiceAddresses().Addr(), number), port)
	return ServicePort{Name: fmt.Sprintf("ns/%d:%d", number, port), Protocol: corev1.ProtocolTCP, At: at, Endpoints: endpoints}
}

func setServices(t *testing.T, n *Network, ports ...ServicePort) {
	t.Helper()
	if err := n.SetServices(ports); err != nil {
		t.Fatal(err)
	}
}

// refusedAt reports whether connections to an address are refused at once.
func refusedAt(address string) error {
	c, err := net.DialTimeout("tcp4", address, time.Minute)
	if err == nil {
		c.Close()
		return errors.New("somebody answers")
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return err
	}
	return nil
}

// whoAnswers asks until everybody has answered who is expected to, and fails if somebody else does. Who answers is
// random, so it asks long enough.
func whoAnswers(address string, want ...string) error {
	heard := map[string]bool{}
	for range 1000 {
		said, err := ask(address)
		if err != nil {
			return err
		}
		heard[strings.Fields(said)[0]] = true
		if len(heard) == len(want) {
			break
		}
	}
	for _, w := range want {
		if !heard[w] {
			return fmt.Errorf("heard %v, want %v", heard, want)
		}
		delete(heard, w)
	}
	if len(heard) > 0 {
		return fmt.Errorf("heard also %v", heard)
	}
	return nil
}

func TestVirtualAddresses(t *testing.T) {
	withAndWithoutFib(t, func(t *testing.T, open func(Options) *Network) {
		if strings.Contains(t.Name(), "without") {
			// The other half of hosts: netfilter does not see what is bridged.
			_ = os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("0"), 0)
		}
		root := t.TempDir()
		n := open(Options{Root: root})
		defer n.remove(t, root)
		a, b, client := setUp(t, n, newPod("a", 1)), setUp(t, n, newPod("b", 1)), setUp(t, n, newPod("client", 1))
		answer(t, a, ":8080", "a")
		answer(t, b, ":8080", "b")
		web := virtual(n, 5, 80, to(8080, a, b)...)
		at := web.At.String()
		setServices(t, n, web)
		if err := inside(t, client, func() error { return whoAnswers(at, "a", "b") }); err != nil {
			t.Errorf("a pod: %v", err)
		}
		if err := whoAnswers(at, "a", "b"); err != nil {
			t.Errorf("the host: %v", err)
		}
		if err := inside(t, a, func() error { return whoAnswers(at, "a", "b") }); err != nil {
			t.Errorf("one of its own endpoints: %v", err)
		}
		for name, address := range map[string]string{
			"another port":   netip.AddrPortFrom(web.At.Addr(), 81).String(),
			"nobody's":       netip.AddrPortFrom(web.At.Addr().Next(), 80).String(),
			"no node's port": a.IPs[0] + ":81",
		} {
			if err := inside(t, client, func() error { return refusedAt(address) }); err != nil {
				t.Errorf("%s, from a pod: %v", name, err)
			}
			if err := refusedAt(address); err != nil {
				t.Errorf("%s, from the host: %v", name, err)
			}
		}

		web.Endpoints = to(8080, b)
		setServices(t, n, web)
		if err := whoAnswers(at, "b"); err != nil {
			t.Errorf("after a is gone: %v", err)
		}
		// As after kill -9: the rules are there, and what has changed meanwhile replaces them.
		n = open(Options{Root: root})
		if err := whoAnswers(at, "b"); err != nil {
			t.Errorf("before the new daemon has said anything: %v", err)
		}
		other := virtual(n, 6, 80, to(8080, a)...)
		setServices(t, n, other)
		if err := whoAnswers(other.At.String(), "a"); err != nil {
			t.Errorf("another Service, after a restart: %v", err)
		}
		if err := refusedAt(at); err != nil {
			t.Errorf("a Service that is gone: %v", err)
		}
		other.Endpoints = nil
		setServices(t, n, other)
		for range 3 { // the kernel must not wait with an answer because it has just sent one
			if err := inside(t, client, func() error { return refusedAt(other.At.String()) }); err != nil {
				t.Errorf("without endpoints: %v", err)
			}
		}
		setServices(t, n)
	})
}

// TestConnectionsSurviveChangesOfServices: what is established goes on, whatever becomes of the rules.
func TestConnectionsSurviveChangesOfServices(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		a, client := setUp(t, n, newPod("a", 1)), setUp(t, n, newPod("client", 1))
		var l net.Listener
		if err := inside(t, a, func() (err error) {
			l, err = net.Listen("tcp4", ":8080")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(c, c) }()
			}
		}()
		web := virtual(n, 5, 80, to(8080, a)...)
		setServices(t, n, web)
		var c net.Conn
		if err := inside(t, client, func() (err error) {
			c, err = net.DialTimeout("tcp4", web.At.String(), time.Minute)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		back := bufio.NewReader(c)
		for _, change := range [][]ServicePort{{web, virtual(n, 6, 80)}, {virtual(n, 5, 80)}, nil} {
			setServices(t, n, change...)
			fmt.Fprintln(c, "still there")
			if said, err := back.ReadString('\n'); err != nil || said != "still there\n" {
				t.Errorf("after the change to %v: %q, %v", change, said, err)
			}
		}
	})
}

// TestSessionAffinity leads a client to the endpoint that it had, as long as that is one.
func TestSessionAffinity(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		client := setUp(t, n, newPod("client", 1))
		pods := map[string]Attachment{}
		var all []Attachment
		for _, name := range []string{"a", "b", "c", "d"} {
			pods[name] = setUp(t, n, newPod(name, 1))
			answer(t, pods[name], ":8080", name)
			all = append(all, pods[name])
		}
		web := virtual(n, 5, 80, to(8080, all...)...)
		web.Affinity = time.Hour
		setServices(t, n, web)
		same := func() (first string) {
			t.Helper()
			for range 20 {
				if err := inside(t, client, func() error {
					said, err := ask(web.At.String())
					if err != nil {
						return err
					}
					who := strings.Fields(said)[0]
					if first != "" && who != first {
						return fmt.Errorf("first %s answered, then %s", first, who)
					}
					first = who
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			return first
		}
		first := same()
		setServices(t, n, web, virtual(n, 6, 80))
		n, err := Open(Options{Root: root, State: root, Mode: Bridge, Pins: &pins.Pins{}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		web.Endpoints = append(to(8081, client), web.Endpoints...) // which nobody is led to who had another
		setServices(t, n, web)
		if now := same(); now != first {
			t.Errorf("%s answered, and after a restart %s", first, now)
		}
		var rest []Attachment
		for name, p := range pods {
			if name != first {
				rest = append(rest, p)
			}
		}
		web.Endpoints = to(8080, rest...)
		setServices(t, n, web)
		if now := same(); now == first {
			t.Error("an endpoint that is gone answers")
		}
	})
}

func TestPortsOfTheHostForServices(t *testing.T) {
	withAndWithoutFib(t, func(t *testing.T, open func(Options) *Network) {
		root := t.TempDir()
		n := open(Options{Root: root})
		defer n.remove(t, root)
		a, client := setUp(t, n, newPod("a", 1)), setUp(t, n, newPod("client", 1))
		answer(t, a, ":8080", "a")
		web := virtual(n, 5, 80, to(8080, a)...)
		web.NodePort, web.External = 30080, []netip.Addr{netip.MustParseAddr("192.0.2.77")}
		setServices(t, n, web)
		// The host gets another address.
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(198, 51, 100, 77), Mask: net.CIDRMask(32, 32)}}); err != nil {
			t.Fatal(err)
		}
		if n.bridge.listed != nil {
			if err := n.renewAddresses(); err != nil {
				t.Fatal(err)
			}
		}
		addresses := []string{n.Gateway().String() + ":30080", "192.0.2.77:80", "198.51.100.77:30080"}
		for _, at := range addresses {
			if err := inside(t, client, func() error { return whoAnswers(at, "a") }); err != nil {
				t.Errorf("%s from a pod: %v", at, err)
			}
		}
		for _, at := range []string{"127.0.0.1:30080", addresses[0]} {
			if err := whoAnswers(at, "a"); err != nil {
				t.Errorf("%s from the host: %v", at, err)
			}
		}
		l, err := net.Listen("tcp4", n.Gateway().String()+":443")
		if err != nil {
			t.Fatal(err)
		}
		greet(t, l, "the API")
		for name, endpoints := range map[string][]netip.AddrPort{
			"without endpoints": nil, "with an endpoint at the gateway": {netip.AddrPortFrom(n.Gateway(), 443)},
		} {
			web.Endpoints = endpoints
			setServices(t, n, web)
			if err := inside(t, client, func() error { return refusedAt(addresses[0]) }); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestPortsOfServicesAndPodsDoNotMeet: a port of the host is that of whoever has it, and never the daemon's.
func TestPortsOfServicesAndPodsDoNotMeet(t *testing.T) {
	withAndWithoutFib(t, func(t *testing.T, open func(Options) *Network) {
		root := t.TempDir()
		n := open(Options{Root: root, Reserved: []Reserved{
			{corev1.ProtocolTCP, netip.MustParseAddrPort("127.0.0.1:30443"), "jobd's API"},
			{corev1.ProtocolTCP, netip.MustParseAddrPort("[::]:30444"), "jobd's API"},
		}})
		defer n.remove(t, root)
		setUp(t, n, withPort("pod", "127.0.0.1", 30080, corev1.ProtocolTCP))
		for port, says := range map[uint16]string{30080: "is that of the pod at", 30443: "jobd's API has it", 30444: "jobd's API has it"} {
			if err := n.PortTaken(corev1.ProtocolTCP, port); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("port %d: %v", port, err)
			}
			if err := n.PortTaken(corev1.ProtocolUDP, port); err != nil {
				t.Errorf("port %d/UDP: %v", port, err)
			}
		}
		a := setUp(t, n, newPod("a", 1))
		answer(t, a, ":8080", "a")
		web := virtual(n, 5, 80, to(8080, a)...)
		web.NodePort = 30081
		setServices(t, n, web)
		refused(t, n, withPort("later", "", 30081, corev1.ProtocolTCP), "is that of the Service "+web.Name)
		setUp(t, n, withPort("udp", "", 30081, corev1.ProtocolUDP))
		n = open(Options{Root: root, Services: []ServicePort{web}})
		refused(t, n, withPort("later", "", 30081, corev1.ProtocolTCP), "is that of the Service "+web.Name)

		// A daemon that is told to listen where a Service has been all along gets its port, and so it is with an external
		// address.
		for _, at := range []string{"127.0.0.1:30081", "127.0.0.1:80"} {
			l, err := net.Listen("tcp4", at)
			if err != nil {
				t.Fatal(err)
			}
			greet(t, l, "host")
		}
		if err := whoAnswers("127.0.0.1:30081", "a"); err != nil {
			t.Error(err)
		}
		for _, listen := range []string{"127.0.0.1", "[::]"} {
			n = open(Options{Root: root, Reserved: []Reserved{
				{corev1.ProtocolTCP, netip.MustParseAddrPort(listen + ":30081"), "jobd's API"},
				{corev1.ProtocolTCP, netip.MustParseAddrPort(listen + ":80"), "jobd's API"},
			}})
			web.External = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
			setServices(t, n, web)
			for _, at := range []string{"127.0.0.1:30081", "127.0.0.1:80"} {
				if err := whoAnswers(at, "host"); err != nil {
					t.Errorf("listening at %s: %s: %v", listen, at, err)
				}
			}
		}
	})
}

// The kernel acknowledges every message of a transaction, which must all fit into the buffer.
func TestManyPortsOfServices(t *testing.T) {
	inOwnNetwork(t, func() {
		n := open(t, t.TempDir(), Bridge)
		var ports []ServicePort
		for i := range uint16(500) {
			ports = append(ports, virtual(n, 3, 1+i, netip.MustParseAddrPort("192.0.2.7:80")))
		}
		setServices(t, n, ports...)
		ports[0].Endpoints = nil
		setServices(t, n, ports...)
		if err := refusedAt(ports[0].At.String()); err != nil {
			t.Errorf("without endpoints: %v", err)
		}
	})
}

// TestDatagramsToServices: answers come from the Service's address, and whoever goes on sending reaches the endpoint that is
// left.
func TestDatagramsToServices(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		a, b, client := setUp(t, n, newPod("a", 1)), setUp(t, n, newPod("b", 1)), setUp(t, n, newPod("client", 1))
		for name, pod := range map[string]Attachment{"a": a, "b": b} {
			var c net.PacketConn
			if err := inside(t, pod, func() (err error) {
				c, err = net.ListenPacket("udp4", ":5354")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			go func() {
				buffer := make([]byte, 16)
				for {
					_, from, err := c.ReadFrom(buffer)
					if err != nil {
						return
					}
					_, _ = c.WriteTo([]byte(name), from)
				}
			}()
		}
		dns := virtual(n, 5, 53, to(5354, a)...)
		dns.Protocol, dns.NodePort = corev1.ProtocolUDP, 30053
		setServices(t, n, dns)
		conns := map[string]net.Conn{}
		dial := func(name string, from Attachment, address string) {
			t.Helper()
			if err := inside(t, from, func() (err error) {
				conns[name], err = net.Dial("udp4", address) // takes answers of this address alone
				return err
			}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conns[name].Close() })
		}
		dial("a pod", client, dns.At.String())
		dial("its own endpoint", a, dns.At.String())
		dial("a port of the host", client, n.Gateway().String()+":30053")
		for _, want := range []string{"a", "b"} {
			for name, c := range conns {
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				buffer := make([]byte, 16)
				_, err := c.Write([]byte("?"))
				if err == nil {
					var size int
					size, err = c.Read(buffer)
					buffer = buffer[:size]
				}
				if err != nil || string(buffer) != want {
					t.Errorf("%s heard %q, %v; want %q", name, buffer, err, want)
				}
			}
			dns.Endpoints = to(5354, b)
			setServices(t, n, dns)
		}
	})
}
