package network

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// withPort returns a pod that asks for a port of the host.
func withPort(uid, hostIP string, hostPort int32, protocol corev1.Protocol) *corev1.Pod {
	p := newPod(uid, 1)
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{
		{Protocol: protocol, ContainerPort: 80, HostPort: hostPort, HostIP: hostIP},
	}
	return p
}

// refused fails the test unless a pod gets no network, and an error that contains certain text.
func refused(t *testing.T, n *Network, p *corev1.Pod, words string) {
	t.Helper()
	a, err := n.SetUp(p, nil)
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("pod %s got %+v, %v; want an error that says %q", p.UID, a, err, words)
	}
	if held, _ := n.Held(); strings.Contains(strings.Join(held, " "), string(p.UID)) {
		t.Errorf("something is set up for pod %s, which was refused", p.UID)
	}
}

func TestHostPortOfAnAddressThatIsNotTheHosts(t *testing.T) {
	withAndWithoutFib(t, func(t *testing.T, open func(Options) *Network) {
		root := t.TempDir()
		other := openElsewhere(t)
		n := open(Options{Root: root})
		defer n.remove(t, root)
		client := setUp(t, n, newPod("client", 1))
		refused(t, n, withPort("far", elsewhere, 80, corev1.ProtocolTCP), "hostIP "+elsewhere+" is not an address of this host")
		refused(t, n, withPort("pod", client.IPs[0], 80, corev1.ProtocolTCP), "is not an address of this host")

		// Nor does a port lead to a pod once the host has lost an address that it had.
		takeAway := giveAddress(t, elsewhere)
		thief := setUp(t, n, withPort("thief", elsewhere, 80, corev1.ProtocolTCP))
		follow(t, n)
		answer(t, thief, thief.IPs[0]+":80", "thief")
		if heard, err := ask(elsewhere + ":80"); err != nil || !strings.HasPrefix(heard, "thief") {
			t.Errorf("while the address is the host's: heard %q, %v", heard, err)
		}
		takeAway()
		followed(t, n)
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
	withAndWithoutFib(t, func(t *testing.T, open func(Options) *Network) {
		root := t.TempDir()
		other := openElsewhere(t)
		listen := netip.MustParseAddrPort("127.0.0.1:6443")
		n := open(Options{Root: root, Reserved: []Reserved{{corev1.ProtocolTCP, listen, "jobd's API"}}})
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

		// Nor does it take over another daemon's name server.
		second := t.TempDir()
		m := open(Options{Root: second})
		defer m.remove(t, second)
		l, err := net.Listen("tcp4", m.Gateway().String()+":53")
		if err != nil {
			t.Fatal(err)
		}
		greet(t, l, "second")
		follow(t, n)
		followed(t, n) // the address of the second bridge
		stranger := setUp(t, m, newPod("stranger", 1))
		hears(stranger, m.Gateway().String()+":53", "second")
		hears(stranger, "198.51.100.1:53", "pod")

		refused(t, n, withPort("gateway-names", gateway, 53, corev1.ProtocolUDP), "the name server of the pods has it")
		refused(t, n, withPort("gateway-api", gateway, 443, corev1.ProtocolTCP), "the API for pods has it")
		refused(t, n, withPort("listen", "127.0.0.1", 6443, corev1.ProtocolTCP), "jobd's API has it at 127.0.0.1:6443")
		refused(t, n, withPort("listen-all", "", 6443, corev1.ProtocolTCP), "jobd's API has it at 127.0.0.1:6443")

		// A daemon that is told to listen where a pod has been listening all along gets its port.
		open(Options{Root: root, Reserved: []Reserved{{corev1.ProtocolTCP, netip.MustParseAddrPort("127.0.0.1:53"), "jobd's API"}}})
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
