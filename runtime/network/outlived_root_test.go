package network

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// joined waits until one pod reaches another: the kernel opens the ports of the bridge in its own time, and datagrams are sent once.
func joined(t *testing.T, from, to Attachment) {
	t.Helper()
	var l net.Listener
	if err := inside(t, to, func() (err error) { l, err = net.Listen("tcp4", ":0"); return err }); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := inside(t, from, func() error {
		c, err := net.DialTimeout("tcp4", fmt.Sprint(to.IPs[0], ":", l.Addr().(*net.TCPAddr).Port), time.Minute)
		if err == nil {
			c.Close()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A pod has given its sockets to somebody, and has ended. Nothing comes to them or from them any more, and nothing of the pod stays on the
// bridge, also if the daemon did not live to see the end.
func TestASocketThatOutlivesItsPod(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint("restarted: ", restarted), func(t *testing.T) {
			inOwnNetwork(t, func() {
				root := t.TempDir()
				n := open(t, root, Bridge)
				defer func() { n.remove(t, root) }()
				other := setUp(t, n, newPod("other", 1))
				ended := setUp(t, n, newPod("ended", 1))
				var given, others net.PacketConn
				for a, socket := range map[*Attachment]*net.PacketConn{&ended: &given, &other: &others} {
					if err := inside(t, *a, func() (err error) { *socket, err = net.ListenPacket("udp4", ":5000"); return err }); err != nil {
						t.Fatal(err)
					}
					defer (*socket).Close()
				}
				joined(t, ended, other)
				to := func(a Attachment) net.Addr { return &net.UDPAddr{IP: net.ParseIP(a.IPs[0]), Port: 5000} }
				if _, err := given.WriteTo([]byte("hello"), to(other)); err != nil {
					t.Fatal(err)
				}
				if heard, _ := hear(t, others); heard != "hello" {
					t.Fatalf("heard %q", heard)
				}
				link, err := netlink.LinkByName(linkName(n.addresses.of("ended")))
				if err != nil {
					t.Fatal(err)
				}
				if restarted {
					// It ends together with the daemon, whose record of it is all that is left.
					if err := n.namespaces("ended").release(); err != nil {
						t.Fatal(err)
					}
					n = open(t, root, Bridge)
				} else if err := n.TearDown("ended"); err != nil {
					t.Fatal(err)
				}
				if _, err := netlink.LinkByIndex(link.Attrs().Index); err != nil {
					t.Fatal("the kernel has removed the link, so this test is for nothing")
				}
				// What is sent first comes first, if it comes.
				_, _ = given.WriteTo([]byte("from nobody"), to(other))
				asker := setUp(t, n, newPod("asker", 1))
				joined(t, asker, other)
				if err := inside(t, asker, func() error {
					c, err := net.Dial("udp4", to(other).String())
					if err == nil {
						defer c.Close()
						_, err = c.Write([]byte("from the asker"))
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				if heard, _ := hear(t, others); heard != "from the asker" {
					t.Errorf("heard %q", heard)
				}
				n.removeOutlived()
				if _, err := netlink.LinkByIndex(link.Attrs().Index); err == nil {
					t.Error("the link stays on the bridge")
				}
				if left := links(t); !slices.Contains(left, linkName(n.addresses.of("other"))) || !slices.Contains(left, linkName(n.addresses.of("asker"))) {
					t.Errorf("links of pods that run are gone: %v", left)
				}
			})
		})
	}
}

// A pod whose bridge somebody has removed can be torn down.
func TestTearDownWithoutTheBridge(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		setUp(t, n, newPod("pod", 1))
		link, err := netlink.LinkByName(n.bridge.name)
		if err == nil {
			err = netlink.LinkDel(link)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := n.TearDown("pod"); err != nil {
			t.Error(err)
		}
	})
}
