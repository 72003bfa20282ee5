package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	corev1 "k8s.io/api/core/v1"
)

// portWith returns a port of a Service with some endpoints, which need not be there.
func portWith(n *Network, number uint32, port uint16, endpoints int) ServicePort {
	p := virtual(n, number, port)
	for i := range endpoints {
		p.Endpoints = append(p.Endpoints, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), port))
	}
	return p
}

// TestServicesTakeNoSetsOfTheirOwn: each set takes the kernel kilobytes that are nobody's, and one of 65535 clients more than a
// megabyte at once. So however many ports there are, there are nine sets, and one for each namespace with affinity.
func TestServicesTakeNoSetsOfTheirOwn(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		var ports []ServicePort
		for i := range 2000 {
			p := portWith(n, uint32(5+i%5), uint16(1+i), 1)
			p.Namespace, p.Affinity = fmt.Sprint("team-", i%2), time.Hour
			ports = append(ports, p)
		}
		setServices(t, n, ports...)
		conn, err := openNFT()
		if err != nil {
			t.Fatal(err)
		}
		sets, err := conn.GetSets(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: n.bridge.name + servicesSuffix})
		if err != nil || len(sets) != 9+2 {
			t.Errorf("%d sets, %v", len(sets), err)
		}
		setServices(t, n, ports[0])
		if sets, err = conn.GetSets(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: n.bridge.name + servicesSuffix}); err != nil || len(sets) != 9+1 {
			t.Errorf("then %d sets, %v", len(sets), err)
		}
	})
}

// TestStartsDoNotWaitForRules: while the kernel changes the rules of Services, of policies or for ports of the host, pods get their
// networks.
func TestStartsDoNotWaitForRules(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		n.services.writing.Lock()
		defer n.services.writing.Unlock()
		n.policies.writing.Lock()
		defer n.policies.writing.Unlock()
		setUp(t, n, newPod("a", 1))
		setUp(t, n, withPort("b", "", 8080, corev1.ProtocolTCP))
		n.rules.writing.Lock()
		defer n.rules.writing.Unlock()
		setUp(t, n, newPod("c", 1))
		if err := n.TearDown("a"); err != nil {
			t.Error(err)
		}
	})
}

// TestChangesOfServicesAddUp: after any changes the kernel has the rules that it would have without them.
func TestChangesOfServicesAddUp(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft (nftables)")
	}
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		seed := uint64(os.Getpid())
		random := rand.New(rand.NewPCG(seed, 0))
		listing := func() string {
			out, err := exec.Command("nft", "list", "table", "ip", n.bridge.name+servicesSuffix).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			// The kernel keeps chains and elements in no order.
			lines := strings.FieldsFunc(string(out), func(r rune) bool { return strings.ContainsRune("\n,", r) })
			for i := range lines {
				lines[i] = strings.TrimSpace(strings.NewReplacer("elements = {", "", "}", "").Replace(lines[i]))
			}
			slices.Sort(lines)
			return strings.Join(lines, "\n")
		}
		for range 10 {
			var ports []ServicePort
			for range 3 {
				ports = nil
				for i := range uint32(8) {
					p := portWith(n, 5+i, uint16(80+random.IntN(2)), random.IntN(4))
					p.NodePort = uint16(random.IntN(2)) * uint16(30000+i)
					p.Affinity, p.Namespace = time.Duration(random.IntN(3))*time.Hour, fmt.Sprint("team-", i%2)
					if random.IntN(3) == 0 {
						p.External = []netip.Addr{netip.MustParseAddr("192.0.2.200")}
					}
					if random.IntN(4) > 0 {
						ports = append(ports, p)
					}
				}
				setServices(t, n, ports...)
			}
			changed := listing()
			if err := removeTable(n.bridge.name+servicesSuffix, nftables.TableFamilyIPv4); err != nil {
				t.Fatal(err)
			}
			n.services.applied = nil
			setServices(t, n, ports...)
			if anew := listing(); changed != anew {
				t.Fatalf("seed %d: after changes\n%s\nanew\n%s", seed, changed, anew)
			}
			n.services.applied = nil // as after a restart
			setServices(t, n, ports...)
			if again := listing(); changed != again {
				t.Fatalf("seed %d: after a restart\n%s\nbefore\n%s", seed, again, changed)
			}
		}
	})
}

// TestRulesOfAnOlderVersion: the rules that a version with sets and maps for each port has left give way to those of today.
func TestRulesOfAnOlderVersion(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft (nftables)")
	}
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		table := n.bridge.name + servicesSuffix
		old := exec.Command("nft", "-f", "-")
		old.Stdin = strings.NewReader(`table ip ` + table + ` {
	map virtual { type ipv4_addr . inet_proto . inet_service : verdict; elements = { 10.96.0.5 . tcp . 80 : goto port-0123 }; }
	map clients-0123 { type ipv4_addr : ipv4_addr . inet_service; size 65535; flags dynamic,timeout; }
	map endpoints-0123 { type inet_service : ipv4_addr . inet_service; elements = { 80 : 192.0.2.1 . 80 }; }
	set all-0123 { type ipv4_addr . inet_service; elements = { 192.0.2.1 . 80 }; }
	chain port-0123 { meta l4proto tcp dnat ip to tcp dport map @endpoints-0123; }
	chain prerouting { type nat hook prerouting priority -99; ip daddr . meta l4proto . th dport vmap @virtual; }
	chain refuse { reject; }
	chain refuse-sent { type filter hook output priority 0; ip daddr 10.96.0.0/20 goto refuse; }
}
`)
		if out, err := old.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		n = open(t, root, Bridge)
		p := portWith(n, 5, 80, 2)
		p.Affinity = time.Hour
		setServices(t, n, p)
		out, err := exec.Command("nft", "list", "table", "ip", table).CombinedOutput()
		if err != nil || strings.Contains(string(out), "0123") || !strings.Contains(string(out), "endpoint-") {
			t.Errorf("%v: %s", err, out)
		}
	})
}
