package network

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// hear returns the next datagram at a socket, or says who should have got it.
func hear(t *testing.T, socket net.PacketConn) (text string, from *net.UDPAddr) {
	t.Helper()
	_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
	heard := make([]byte, 100)
	n, who, err := socket.ReadFrom(heard)
	if err != nil {
		t.Fatal(err)
	}
	return string(heard[:n]), who.(*net.UDPAddr)
}

// A pod sends something from a port of the host, or of another pod, to somebody else's machine. What that machine sends to the port
// afterwards is not for the pod.
func TestNobodyTakesWhatIsForPortsOfTheHost(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		machine := openElsewhere(t)
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		attacker := setUp(t, n, newPod("attacker", 1))
		at := func(a Attachment, port int) (socket net.PacketConn) {
			t.Helper()
			if err := inside(t, a, func() (err error) {
				socket, err = net.ListenPacket("udp4", fmt.Sprint(":", port))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { socket.Close() })
			return socket
		}
		host := func(port int) net.PacketConn {
			socket, err := net.ListenPacket("udp4", fmt.Sprint(":", port))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { socket.Close() })
			return socket
		}
		pod := func(port int) net.PacketConn {
			a := setUp(t, n, withPort(fmt.Sprint("pod-", port), "", int32(port), corev1.ProtocolUDP))
			joined(t, attacker, a)
			return at(a, 80)
		}
		for _, c := range []struct {
			name   string
			port   int
			listen func(port int) net.PacketConn
			later  bool // than the attacker
		}{
			{"the host's own", 22, host, false},
			{"the host's own, above those that are privileged", 5353, host, false},
			{"a pod's", 53, pod, false},
			{"a NodePort's", 30080, pod, false},
			{"a pod's, among those that others may get", 40080, pod, false},
			{"a pod's that starts later", 50080, pod, true},
		} {
			var victim net.PacketConn
			if !c.later {
				victim = c.listen(c.port)
			}
			from := at(attacker, c.port)
			for i, port := range []int{1024, 20000, 45000} {
				port += c.port % 1000
				theirs := at(machine, port)
				if _, err := from.WriteTo([]byte("give me that"), &net.UDPAddr{IP: net.ParseIP("198.51.100.2"), Port: port}); err != nil {
					t.Fatal(err)
				}
				_, as := hear(t, theirs)
				if !c.later && (as.Port < firstMasqueraded || as.Port == c.port) {
					t.Errorf("%s: the attacker sends from port %d of the host", c.name, as.Port)
				}
				if c.later && i == 0 {
					victim = c.listen(c.port)
				}
				if _, err := theirs.WriteTo([]byte("for the host"), &net.UDPAddr{IP: net.ParseIP("198.51.100.1"), Port: c.port}); err != nil {
					t.Fatal(err)
				}
				_ = from.SetReadDeadline(time.Now())
				if heard, _ := hear(t, victim); heard != "for the host" {
					t.Errorf("%s: heard %q", c.name, heard)
				}
				theirs.Close()
			}
		}

		// Nor does a server that trusts ports below 1024 take a pod for root of the host.
		var server net.Listener
		if err := inside(t, machine, func() (err error) { server, err = net.Listen("tcp4", ":2049"); return err }); err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if err := inside(t, attacker, func() error {
			client := net.Dialer{LocalAddr: &net.TCPAddr{Port: 700}, Timeout: time.Minute}
			c, err := client.Dial("tcp4", "198.51.100.2:2049")
			if err == nil {
				c.Close()
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		c, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if as := c.RemoteAddr().(*net.TCPAddr); as.Port < firstMasqueraded {
			t.Errorf("a server is connected from %s", as)
		}
	})
}

func TestPortsThatPodsSendFrom(t *testing.T) {
	for _, c := range []struct {
		name        string
		pods, own   []uint16
		first, last uint16
	}{
		{"nothing is taken", nil, nil, 32768, 65535},
		{"lower ones", []uint16{80, 32767}, []uint16{443}, 32768, 65535},
		{"one above the middle", []uint16{60000}, nil, 32768, 59999},
		{"one below the middle", nil, []uint16{33000}, 33001, 65535},
		{"the first and the last", []uint16{32768, 65535}, nil, 32769, 65534},
		{"several, in any order, twice", []uint16{60000, 40000, 60000}, []uint16{40000, 40001}, 40002, 59999},
		{"the first one alone is left", upTo(32769, 65535), nil, 32768, 32768},
	} {
		var r rules
		for _, port := range c.pods {
			r.ports = append(r.ports, mappedPort{hostPort: hostPort{HostPort: port}})
		}
		for _, port := range c.own {
			r.own = append(r.own, endpoint{AddrPort: netip.AddrPortFrom(netip.IPv4Unspecified(), port)})
		}
		before := slices.Clone(r.ports)
		if first, last := r.masqueraded(); first != c.first || last != c.last {
			t.Errorf("%s: %d to %d, want %d to %d", c.name, first, last, c.first, c.last)
		}
		if !slices.Equal(before, r.ports) {
			t.Errorf("%s: the ports are in another order", c.name)
		}
	}
}

func upTo(first, last uint16) (all []uint16) {
	for port := int(first); port <= int(last); port++ {
		all = append(all, uint16(port))
	}
	return all
}
