package network

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The kernel's table of neighbours is one for all pods and the host, and any pod can fill it: what the host sends to pods, also to
// addresses that nobody has, must not need room in it.
func TestTheHostAsksForNoPod(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		a := setUp(t, n, newPod("u1", 1))
		pod := netip.MustParseAddr(a.IPs[0])
		var free netip.Addr
		for free = gateway(n.Subnet()).Next(); free == pod; free = free.Next() {
			continue
		}
		for range 300 {
			free = free.Next()
			conn, err := net.Dial("udp", netip.AddrPortFrom(free, 9).String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte("x")); err != nil {
				t.Errorf("%s: %v", free, err)
			}
			conn.Close()
		}
		known, err := netlink.NeighList(n.bridge.index, netlink.FAMILY_V4)
		if err != nil {
			t.Fatal(err)
		}
		if asked := slices.DeleteFunc(slices.Clone(known), func(k netlink.Neigh) bool {
			return k.State == netlink.NUD_PERMANENT || k.State == netlink.NUD_NOARP
		}); len(asked) > 0 {
			t.Errorf("the host asks for %d addresses, such as %v", len(asked), asked[0])
		}
		places := map[string]string{}
		for _, k := range known {
			if k.State == netlink.NUD_PERMANENT {
				places[k.IP.String()] = k.HardwareAddr.String()
			}
		}
		for pod := gateway(n.Subnet()).Next(); n.Subnet().Contains(pod.Next()); pod = pod.Next() {
			if got, want := places[pod.String()], hardwareAddress(pod).String(); got != want {
				t.Fatalf("the host finds %s at %q, want %q", pod, got, want)
			}
		}
	})
}

// Nor does the bridge have to learn where a pod is, and it sends to no pod what is for none. That also goes for the links of pods whose
// bridge somebody has removed.
func TestTheBridgeKnowsThePortsOfPods(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer func() { n.remove(t, root) }()
		pod := netip.MustParseAddr(setUp(t, n, newPod("u1", 1)).IPs[0])
		for _, when := range []string{"at first", "on another bridge"} {
			port, err := netlink.LinkByName(linkName(pod))
			if err != nil {
				t.Fatal(err)
			}
			known, err := netlink.NeighList(port.Attrs().Index, unix.AF_BRIDGE)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(known, func(k netlink.Neigh) bool {
				return bytes.Equal(k.HardwareAddr, hardwareAddress(pod)) && k.MasterIndex == n.bridge.index && k.State == netlink.NUD_NOARP
			}) {
				t.Errorf("%s: the bridge has to learn where the pod is: %v", when, known)
			}
			if is, err := netlink.LinkGetProtinfo(port); err != nil || is.Flood || !is.Hairpin {
				t.Errorf("%s: what is for nobody is sent to the pod, or what is for itself is not: %+v, %v", when, is, err)
			}
			bridge, err := netlink.LinkByIndex(n.bridge.index)
			if err != nil {
				t.Fatal(err)
			}
			if err := netlink.LinkDel(bridge); err != nil {
				t.Fatal(err)
			}
			n = open(t, root, Bridge)
		}
	})
}

// A pod has one neighbour, the gateway, whatever its programs send to whom, and reaches other pods all the same.
func TestAPodHasOneNeighbour(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		a, b := setUp(t, n, newPod("u1", 1)), setUp(t, n, newPod("u2", 1))
		var free netip.Addr
		for free = gateway(n.Subnet()).Next(); slices.Contains([]string{a.IPs[0], b.IPs[0]}, free.String()); free = free.Next() {
			continue
		}
		var listener *net.UDPConn
		if err := inside(t, b, func() (err error) {
			listener, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(b.IPs[0]), Port: 9})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		if err := inside(t, a, func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			to := &unix.SockaddrInet4{Port: 9, Addr: netip.MustParseAddr(b.IPs[0]).As4()}
			if err := unix.Sendto(fd, []byte("hello"), 0, to); err != nil {
				return err
			}
			if err := unix.BindToDevice(fd, podInterface); err != nil {
				return err
			}
			for i := range 200 {
				to.Addr = free.As4()
				if i%2 == 1 {
					to.Addr = [4]byte{203, 0, 113, byte(i)}
				}
				for _, flags := range []int{0, unix.MSG_DONTROUTE} {
					_ = unix.Sendto(fd, []byte("x"), flags, to)
				}
				free = free.Next()
			}
			eth, err := netlink.LinkByName(podInterface)
			if err != nil {
				return err
			}
			known, err := netlink.NeighList(eth.Attrs().Index, netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			if len(known) != 1 || !known[0].IP.Equal(n.Gateway().AsSlice()) {
				t.Errorf("%d neighbours: %v", len(known), known)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		// A datagram is lost while the kernel has not noticed yet that b's link is up, which a busy machine takes long for.
		for begun := time.Now(); ; {
			buffer := make([]byte, 100)
			if err := listener.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			got, from, err := listener.ReadFrom(buffer)
			if err == nil && string(buffer[:got]) == "hello" {
				return
			} else if err == nil || time.Since(begun) > 30*time.Second {
				t.Fatalf("from another pod: %q, %v, %v", buffer[:got], from, err)
			}
			if err := inside(t, a, func() error {
				conn, err := net.Dial("udp", net.JoinHostPort(b.IPs[0], "9"))
				if err != nil {
					return err
				}
				defer conn.Close()
				_, err = conn.Write([]byte("hello"))
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
