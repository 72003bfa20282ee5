package network

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/pins"
)

// answer listens in a pod's network until the test ends, and greets whoever comes.
func answer(t *testing.T, a Attachment, address, greeting string) {
	t.Helper()
	var l net.Listener
	if err := inside(t, a, func() (err error) {
		l, err = net.Listen("tcp4", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	greet(t, l, greeting)
}

// greet greets whoever comes, until the test ends.
func greet(t *testing.T, l net.Listener, greeting string) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s to %s", greeting, c.RemoteAddr().(*net.TCPAddr).IP)
			c.Close()
		}
	}()
}

// ask returns the greeting at an address from the thread's network, where somebody is expected to answer.
func ask(address string) (string, error) { return askFor(time.Minute, address) }

// silent reports whether nobody answers at an address.
func silent(address string) bool {
	_, err := askFor(time.Second, address)
	return err != nil
}

func askFor(limit time.Duration, address string) (string, error) {
	late := time.Now().Add(limit)
	c, err := net.DialTimeout("tcp4", address, limit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(late)
	heard := make([]byte, 100)
	n, err := c.Read(heard)
	return string(heard[:n]), err
}

// What a cluster lets users do, whoever makes a pod's network and when.
func TestAnyUserMayBindAllPortsAndPing(t *testing.T) {
	check := func(t *testing.T, a Attachment) {
		t.Helper()
		if err := inside(t, a, func() error {
			ports, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
			if err == nil && string(ports) != "0\n" {
				err = fmt.Errorf("privileges are needed for ports below %s", ports)
			}
			if err != nil {
				return err
			}
			// No privilege helps where its group may not.
			ping, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
			if err != nil {
				return fmt.Errorf("a socket for pings: %w", err)
			}
			return unix.Close(ping)
		}); err != nil {
			t.Error(err)
		}
	}
	for _, mode := range []Mode{Auto, None} {
		t.Run("network "+string(mode), func(t *testing.T) {
			inOwnNetwork(t, func() {
				root := t.TempDir()
				n := open(t, root, mode)
				defer n.remove(t, root)
				check(t, setUp(t, n, newPod("a", 2)))
				if n.Mode() != Bridge {
					return
				}
				n.prepared.wanted = 1
				if _, err := n.prepare(); err != nil {
					t.Fatal(err)
				}
				check(t, setUp(t, n, newPod("b", 1))) // it gets the network that was prepared
			})
		})
	}
}

func TestPodsOnABridge(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Auto)
		defer n.remove(t, root)
		if n.Mode() != Bridge {
			t.Skipf("needs a kernel with bridges and nf_tables: %s", n.Describe())
		}
		a, b := setUp(t, n, newPod("a", 1)), setUp(t, n, newPod("b", 2))
		answer(t, b, b.IPs[0]+":80", "b")
		if err := inside(t, a, func() error {
			heard, err := ask(b.IPs[0] + ":80")
			if want := "b to " + a.IPs[0]; err == nil && heard != want {
				err = fmt.Errorf("heard %q, want %q", heard, want)
			}
			return err
		}); err != nil {
			t.Errorf("pod to pod: %v", err)
		}
		if heard, err := ask(b.IPs[0] + ":80"); err != nil || heard != "b to "+n.Gateway().String() {
			t.Errorf("host to pod: %q, %v", heard, err)
		}
		if again := setUp(t, n, newPod("a", 1)); again.IPs[0] != a.IPs[0] {
			t.Errorf("set up again: %v, was %v", again.IPs, a.IPs)
		}
		if b.Namespaces[specs.IPCNamespace] == "" || a.Namespaces[specs.IPCNamespace] != "" {
			t.Error("IPC is to be shared where there are several containers, and only there")
		}

		// As after kill -9.
		n = open(t, root, Bridge)
		if c := setUp(t, n, newPod("c", 1)); slices.Contains([]string{a.IPs[0], b.IPs[0]}, c.IPs[0]) {
			t.Errorf("after a restart c has the address %v of a pod that is there", c.IPs)
		}
		if again := setUp(t, n, newPod("b", 2)); again.IPs[0] != b.IPs[0] {
			t.Errorf("after a restart b has %v, was %v", again.IPs, b.IPs)
		}
		if held, err := n.Held(); err != nil || len(held) != 3 {
			t.Errorf("held after a restart: %v, %v", held, err)
		}

		// As if somebody had removed the bridge.
		bridge, err := netlink.LinkByName(runtime.RootName(root))
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkDel(bridge); err != nil {
			t.Fatal(err)
		}
		n = open(t, root, Bridge)
		if heard, err := ask(b.IPs[0] + ":80"); err != nil {
			t.Errorf("after the bridge was made anew: %q, %v", heard, err)
		}

		n.remove(t, root)
		n.remove(t, root) // doing it again is no error
		for _, l := range links(t) {
			if strings.HasPrefix(l, "job") {
				t.Errorf("left: %s", l)
			}
		}
		if mounts, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(mounts), root) {
			t.Error("a mount is left")
		}
	})
}

func TestTwoDaemonsDoNotMeet(t *testing.T) {
	inOwnNetwork(t, func() {
		roots := []string{t.TempDir(), t.TempDir()}
		one, two := open(t, roots[0], Bridge), open(t, roots[1], Bridge)
		defer two.remove(t, roots[1])
		if one.Subnet().Overlaps(two.Subnet()) || one.bridge.name == two.bridge.name {
			t.Fatalf("%s and %s", one.Describe(), two.Describe())
		}
		a, b := setUp(t, one, newPod("same", 1)), setUp(t, two, newPod("same", 1))
		answer(t, b, b.IPs[0]+":80", "b")
		if err := inside(t, a, func() error {
			if !silent(b.IPs[0] + ":80") {
				return errors.New("it answers")
			}
			return nil
		}); err != nil {
			t.Errorf("a pod of one reaches a pod of the other: %v", err)
		}
		one.remove(t, roots[0])
		if heard, err := ask(b.IPs[0] + ":80"); err != nil {
			t.Errorf("with the first one cleaned away: %q, %v", heard, err)
		}
	})
}

func TestHostPort(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		p := newPod("server", 1)
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Protocol: corev1.ProtocolTCP, ContainerPort: 80, HostPort: 8080}}
		a := setUp(t, n, p)
		answer(t, a, a.IPs[0]+":80", "server")
		for _, address := range []string{n.Gateway().String() + ":8080", "127.0.0.1:8080"} {
			if _, err := ask(address); err != nil {
				t.Errorf("host to %s: %v", address, err)
			}
		}
		other := setUp(t, n, newPod("client", 1))
		if err := inside(t, other, func() error { _, err := ask(n.Gateway().String() + ":8080"); return err }); err != nil {
			t.Errorf("pod to the host's port: %v", err)
		}
		second := newPod("second", 1)
		second.Spec.Containers[0].Ports = p.Spec.Containers[0].Ports
		if _, err := n.SetUp(second, nil); err == nil {
			t.Error("a second pod got the same port")
		}
		n = open(t, root, Bridge)
		if _, err := ask("127.0.0.1:8080"); err != nil {
			t.Errorf("after a restart: %v", err)
		}
		if err := n.TearDown("server"); err != nil {
			t.Fatal(err)
		}
		if !silent("127.0.0.1:8080") {
			t.Error("the port of a pod that is gone answers")
		}
		if _, err := n.SetUp(second, nil); err != nil {
			t.Errorf("the port of a pod that is gone is not free: %v", err)
		}
	})
}

func TestPortOfTheAPI(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		client := setUp(t, n, newPod("client", 1))
		api, err := net.Listen("tcp4", n.Gateway().String()+":0")
		if err != nil {
			t.Fatal(err)
		}
		greet(t, api, "api")
		web, err := net.Listen("tcp4", "0.0.0.0:443")
		if err != nil {
			t.Fatal(err)
		}
		greet(t, web, "web")
		expect := func(when string) {
			t.Helper()
			at := n.Gateway().String() + ":443"
			if heard, err := ask(at); heard != "api to "+n.Gateway().String() {
				t.Errorf("%s, the host: %q, %v", when, heard, err)
			}
			if heard, err := ask("127.0.0.1:443"); heard != "web to 127.0.0.1" {
				t.Errorf("%s, the host's own port: %q, %v", when, heard, err)
			}
			if err := inside(t, client, func() error {
				heard, err := ask(at)
				if heard != "api to "+client.IPs[0] {
					t.Errorf("%s, a pod: %q", when, heard)
				}
				return err
			}); err != nil {
				t.Errorf("%s, a pod: %v", when, err)
			}
		}
		if err := n.LeadToAPI(uint16(api.Addr().(*net.TCPAddr).Port)); err != nil {
			t.Fatal(err)
		}
		expect("where another server has the port")
		giveAddress(t, "192.0.2.1")
		p := newPod("server", 1)
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Protocol: corev1.ProtocolTCP, ContainerPort: 80, HostPort: 443, HostIP: "192.0.2.1"}}
		setUp(t, n, p)
		expect("with a pod that has the host's port")
	})
}

func TestModesWithoutABridge(t *testing.T) {
	inOwnNetwork(t, func() {
		none := open(t, t.TempDir(), None)
		if a := setUp(t, none, newPod("one", 1)); len(a.Namespaces) != 0 || len(a.IPs) != 0 {
			t.Errorf("none, one container: %+v; it brings its own", a)
		}
		a := setUp(t, none, newPod("two", 2))
		defer func() {
			if err := none.TearDown("two"); err != nil {
				t.Error(err)
			}
		}()
		var names []string
		if err := inside(t, a, func() error { names = links(t); return nil }); err != nil || !slices.Contains(names, "lo") || slices.Contains(names, "eth0") {
			t.Errorf("none, two containers: interfaces %v (%v)", names, err)
		}
		host := open(t, t.TempDir(), Host)
		if a := setUp(t, host, newPod("one", 1)); a.IPs[0] != "192.0.2.1" || !strings.HasPrefix(a.Namespaces[specs.NetworkNamespace], "/proc/") {
			t.Errorf("host: %+v", a)
		}
		p := newPod("sysctl", 1)
		p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "0"}}}
		if _, err := host.SetUp(p, nil); err == nil {
			t.Error("host: a sysctl of the host's network was let through")
		}
		for _, l := range links(t) {
			if strings.HasPrefix(l, "job") {
				t.Errorf("left: %s", l)
			}
		}
	})
}

// Pods keep their network when jobd is restarted without a bridge, and give up their ports of the host together with
// it.
func TestBridgeOfAnEarlierRun(t *testing.T) {
	for _, mode := range []Mode{None, Host} {
		t.Run(string(mode), func(t *testing.T) {
			inOwnNetwork(t, func() {
				root := t.TempDir()
				n := open(t, root, Bridge)
				defer n.remove(t, root)
				name := n.bridge.name
				server := setUp(t, n, withPort("server", "", 8080, corev1.ProtocolTCP))
				answer(t, server, server.IPs[0]+":80", "server")
				setUp(t, n, newPod("client", 1))

				n = open(t, root, mode)
				if n.Mode() != mode || n.Gateway().IsValid() || n.Subnet().IsValid() || n.Describe() != string(mode) {
					t.Errorf("it is %s with a gateway at %v", n.Describe(), n.Gateway())
				}
				if _, err := ask("127.0.0.1:8080"); err != nil {
					t.Errorf("the port of a pod that runs on: %v", err)
				}
				if again := setUp(t, n, newPod("server", 1)); !slices.Equal(again.IPs, server.IPs) {
					t.Errorf("a pod that runs on has %v, had %v", again.IPs, server.IPs)
				}
				if a := setUp(t, n, newPod("new", 1)); slices.Contains(a.IPs, n.bridge.address.Next().Next().Next().String()) || a.Host != (mode == Host) {
					t.Errorf("a new pod got %+v", a)
				}
				if err := n.TearDown("server"); err != nil {
					t.Fatal(err)
				}
				if !silent("127.0.0.1:8080") {
					t.Error("the port of a pod that is gone answers")
				}
				if !slices.Contains(links(t), name) {
					t.Error("the bridge went before its last pod")
				}
				if err := n.TearDown("client"); err != nil {
					t.Fatal(err)
				}
				if slices.Contains(links(t), name) {
					t.Error("the bridge stays after its last pod")
				}
				conn, err := openNFT()
				if err != nil {
					t.Fatal(err)
				}
				if tables, err := conn.ListTables(); err != nil || len(tables) > 0 {
					t.Errorf("nft tables are left: %v, %v", tables, err)
				}
			})
		})
	}
}

// A bridge without pods goes when jobd is restarted without one, and so do rules without a bridge.
func TestBridgeOfAnEarlierRunWithoutPods(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		first := open(t, root, Bridge)
		open(t, root, None)
		if slices.Contains(links(t), first.bridge.name) {
			t.Error("the bridge is left")
		}
		n := open(t, root, Bridge)
		link, err := netlink.LinkByName(n.bridge.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkDel(link); err != nil {
			t.Fatal(err)
		}
		open(t, root, None)
		conn, err := openNFT()
		if err != nil {
			t.Fatal(err)
		}
		if tables, err := conn.ListTables(); err != nil || len(tables) > 0 {
			t.Errorf("nft tables are left: %v, %v", tables, err)
		}
	})
}

func TestWithoutThePrivilegeForABridge(t *testing.T) {
	inOwnNetwork(t, func() {
		var caps [2]unix.CapUserData
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capget(&header, &caps[0]); err != nil {
			t.Fatal(err)
		}
		caps[0].Effective &^= 1 << unix.CAP_NET_ADMIN // of this thread, which ends with the test
		if err := unix.Capset(&header, &caps[0]); err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		n := open(t, root, Auto)
		if n.Mode() != None || !strings.Contains(n.Describe(), "not permitted") || n.Gateway().IsValid() {
			t.Errorf("left to itself: %s", n.Describe())
		}
		if _, err := Open(
			Options{Root: root, State: root, Mode: Bridge, Pins: &pins.Pins{}, Logger: slog.New(slog.DiscardHandler)},
		); !errors.Is(err, unix.EPERM) {
			t.Errorf("asked for a bridge: %v", err)
		}
		if a := setUp(t, n, newPod("one", 1)); len(a.IPs) != 0 {
			t.Errorf("a pod got %v", a.IPs)
		}
		if err := Clean(root); err != nil {
			t.Errorf("clean, where nothing can have been made: %v", err)
		}
	})
}

func TestPodInTheHostsNetwork(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		p := newPod("host", 1)
		p.Spec.HostNetwork = true
		if a := setUp(t, n, p); len(a.Namespaces) != 0 || !slices.Equal(a.IPs, []string{"192.0.2.1"}) {
			t.Errorf("%+v", a)
		}
	})
}

func TestSubnetsThatAreTaken(t *testing.T) {
	first, err := chooseSubnet("/r", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, taken := range map[string]string{
		"the one itself": first.String(), "a part of it": first.Addr().Next().String() + "/32",
		"a network around it": "10.64.0.0/10", "all of the private network": "10.0.0.0/8",
	} {
		t.Run(name, func(t *testing.T) {
			p := netip.MustParsePrefix(taken)
			got, err := chooseSubnet("/r", []netip.Prefix{p})
			if err != nil || got.Overlaps(p) || !got.Addr().IsPrivate() || got.Masked() != got {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	all := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16")}
	if got, err := chooseSubnet("/r", all); err == nil {
		t.Errorf("with all taken: %v", got)
	}
}

func TestAddresses(t *testing.T) {
	subnet := netip.MustParsePrefix("10.64.16.0/20")
	a := newAddresses(subnet)
	seen := map[netip.Addr]bool{gateway(subnet): true}
	for i := range 4093 {
		addr, err := a.take(fmt.Sprint(i))
		if err != nil || seen[addr] || !subnet.Contains(addr) || !subnet.Contains(addr.Next()) || addr == subnet.Addr() {
			t.Fatalf("pod %d: %v, %v", i, addr, err)
		}
		seen[addr] = true
	}
	if addr, err := a.take("one too many"); err == nil {
		t.Errorf("got %v", addr)
	}
	free := a.of("17")
	a.release("17")
	if addr, err := a.take("next"); err != nil || addr != free {
		t.Errorf("got %v (%v), want %v", addr, err, free)
	}
	if a.claim("thief", free) || a.claim("stranger", netip.MustParseAddr("192.0.2.7")) {
		t.Error("claimed what is another's")
	}
}
