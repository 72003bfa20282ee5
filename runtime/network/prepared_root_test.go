package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/internal/layout"
)

// describe returns what a pod sees of its network, without its addresses.
func describe(t *testing.T, a Attachment) string {
	t.Helper()
	var out []string
	if err := inside(t, a, func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links {
			at := l.Attrs()
			addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
			if err != nil {
				return err
			}
			neighbours, err := netlink.NeighList(at.Index, netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			out = append(out, fmt.Sprint(at.Name, " ", at.HardwareAddr, " ", at.MTU, at.Flags&net.FlagUp, addrs))
			for _, n := range neighbours {
				out = append(out, fmt.Sprint(n.IP, n.HardwareAddr, n.State))
			}
		}
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		out = append(out, fmt.Sprint(routes))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	hardware := hardwareAddress(netip.MustParseAddr(a.IPs[0])).String()
	return strings.NewReplacer(a.IPs[0], "ADDRESS", hardware, "HARDWARE").Replace(strings.Join(out, "\n"))
}

func preparedIn(t *testing.T, root string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(layout.State(root).PreparedNetworks())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestPreparedNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inOwnNetwork(t, func() {
			root := t.TempDir()
			n := open(t, root, Bridge)
			defer n.remove(t, root)
			ctx, cancel := context.WithCancel(t.Context())
			defer synctest.Wait()
			defer cancel()
			go func() {
				if err := n.Prepare(ctx); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			if got := preparedIn(t, root); len(got) > 0 {
				t.Errorf("prepared for nobody: %v", got)
			}
			var first Attachment
			seen := map[string]bool{}
			for i := range mostPrepared + 3 {
				ready := preparedIn(t, root)
				if want := min(i, mostPrepared); len(ready) != want {
					t.Fatalf("after %d pods %d networks are prepared, not %d", i, len(ready), want)
				}
				p := newPod(fmt.Sprint("pod-", i), 1+i%2)
				a := setUp(t, n, p)
				if seen[a.IPs[0]] {
					t.Errorf("two pods have the address %s", a.IPs[0])
				}
				seen[a.IPs[0]] = true
				if i == 0 {
					first = a
				} else if got, want := describe(t, a), describe(t, first); got != want {
					t.Errorf("a prepared network differs:\n%s\n\n%s", got, want)
				}
				// A pod that is set up again keeps what it has.
				if again := setUp(t, n, p); !slices.Equal(again.IPs, a.IPs) {
					t.Errorf("set up again, a pod has %v and not %v", again.IPs, a.IPs)
				}
				synctest.Wait()
			}
			// A pod with ports of the host takes none.
			before := preparedIn(t, root)
			withPort := newPod("with-port", 1)
			withPort.Spec.Containers[0].Ports = []corev1.ContainerPort{{Protocol: corev1.ProtocolTCP, HostPort: 8080, ContainerPort: 80}}
			setUp(t, n, withPort)
			if got := preparedIn(t, root); !slices.Equal(got, before) {
				t.Errorf("prepared: %v, before a pod with a port of the host: %v", got, before)
			}
			time.Sleep(preparedFor + time.Second)
			synctest.Wait()
			if got := preparedIn(t, root); len(got) > 0 {
				t.Errorf("prepared although no pod has come for a minute: %v", got)
			}
			// The next one begins anew.
			setUp(t, n, newPod("later", 1))
			synctest.Wait()
			if got := preparedIn(t, root); len(got) != 1 {
				t.Errorf("prepared after a pause: %v", got)
			}
			cancel()
			synctest.Wait()
			if got := preparedIn(t, root); len(got) > 0 {
				t.Errorf("prepared after the end: %v", got)
			}
			for _, a := range n.addresses.owner {
				if !strings.HasPrefix(a, "pod-") && a != "with-port" && a != "later" {
					t.Errorf("%s still has an address", a)
				}
			}
		})
	})
}

// What a killed daemon had prepared is removed at the next start, and its pods keep theirs.
func TestPreparedNetworksOfAnEarlierRun(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		killed := open(t, root, Bridge)
		killed.prepared.wanted = 2
		for range 2 {
			if _, err := killed.prepare(); err != nil {
				t.Fatal(err)
			}
		}
		p := newPod("pod", 1)
		a := setUp(t, killed, p)
		// Of another it was killed in the middle.
		unfinished := killed.prepared.namespaces("9")
		if err := unfinished.write(record{Address: killed.bridge.address.Next()}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(unfinished.dir, "net"), nil, 0o444); err != nil {
			t.Fatal(err)
		}

		n := open(t, root, Bridge)
		defer n.remove(t, root)
		if got := preparedIn(t, root); len(got) > 0 {
			t.Errorf("still prepared: %v", got)
		}
		if len(n.addresses.owner) != 1 {
			t.Errorf("addresses: %v", n.addresses.owner)
		}
		if again := setUp(t, n, p); !slices.Equal(again.IPs, a.IPs) {
			t.Errorf("the pod has %v, not %v", again.IPs, a.IPs)
		}
	})
}

// If somebody has removed the bridge, a pod gets no network that leads nowhere.
func TestPreparedNetworksWithoutTheirBridge(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		n.prepared.wanted = 1
		if _, err := n.prepare(); err != nil {
			t.Fatal(err)
		}
		bridge, err := netlink.LinkByName(n.bridge.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkDel(bridge); err != nil {
			t.Fatal(err)
		}
		if a, err := n.SetUp(newPod("pod", 1), nil); err == nil {
			t.Errorf("without the bridge a pod has %v", a.IPs)
		}
		if err := n.dropPrepared(); err != nil {
			t.Error(err)
		}
	})
}
