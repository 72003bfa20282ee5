package network

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// listenUDP opens a socket in a pod's network that is closed when the test ends.
func listenUDP(t *testing.T, a Attachment, address string) net.PacketConn {
	t.Helper()
	var socket net.PacketConn
	if err := inside(t, a, func() (err error) {
		socket, err = net.ListenPacket("udp4", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return socket
}

// hears fails the test unless the next datagram of a socket holds certain text.
func hears(t *testing.T, socket net.PacketConn, words string) {
	t.Helper()
	_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
	buffer := make([]byte, 1<<16)
	n, _, err := socket.ReadFrom(buffer)
	if err != nil || string(buffer[:n]) != words {
		t.Errorf("heard %q, %v; want %q", buffer[:n], err, words)
	}
}

// A client that keeps sending to a UDP port of the host reaches whoever has it now, neither a pod that is gone nor the
// host, which had it before.
func TestConnectionsDoNotOutliveTheirPort(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		other := openElsewhere(t)
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		client := listenUDP(t, other, "198.51.100.2:1000")
		send := func(words string) {
			t.Helper()
			if _, err := client.WriteTo([]byte(words), net.UDPAddrFromAddrPort(netip.MustParseAddrPort("198.51.100.1:8080"))); err != nil {
				t.Fatal(err)
			}
		}
		host, err := net.ListenPacket("udp4", "198.51.100.1:8080")
		if err != nil {
			t.Fatal(err)
		}
		send("to the host")
		hears(t, host, "to the host")
		host.Close()

		first := setUp(t, n, withPort("first", "", 8080, corev1.ProtocolUDP))
		send("to the first pod")
		hears(t, listenAfter(t, first, send, "to the first pod again"), "to the first pod again")
		if err := n.TearDown("first"); err != nil {
			t.Fatal(err)
		}
		flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range flows {
			if f.Reverse.SrcIP.Equal(net.ParseIP(first.IPs[0])) {
				t.Errorf("the kernel still has a connection to the pod that is gone: %v", f)
			}
		}

		second := setUp(t, n, withPort("second", "198.51.100.1", 8080, corev1.ProtocolUDP))
		hears(t, listenAfter(t, second, send, "to the second pod"), "to the second pod")
	})
}

// listenAfter listens at port 80 of a pod and then lets a client send.
func listenAfter(t *testing.T, a Attachment, send func(string), words string) net.PacketConn {
	t.Helper()
	socket := listenUDP(t, a, a.IPs[0]+":80")
	send(words)
	return socket
}
