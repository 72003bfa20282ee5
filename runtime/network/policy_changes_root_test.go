package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"github.com/google/nftables"
	corev1 "k8s.io/api/core/v1"
)

// TestChangesOfPolicies takes the tables through random policies, one after the other. They are then what they would be
// had the last ones been the first.
func TestChangesOfPolicies(t *testing.T) {
	inOwnNetwork(t, func() {
		changing, fresh := t.TempDir(), t.TempDir()
		n, m := open(t, changing, Bridge), open(t, fresh, Bridge)
		defer n.remove(t, changing)
		defer m.remove(t, fresh)
		r := rand.New(rand.NewPCG(1, 2))
		lists := map[string][]Allowance{"nothing": nil}
		for i := range 6 {
			lists["group "+strconv.Itoa(i)] = []Allowance{
				{Group: strconv.Itoa(i), Protocol: corev1.ProtocolTCP, First: 80, Last: 80},
				{Group: strconv.Itoa(i / 2), Protocol: corev1.ProtocolUDP},
			}
			lists["name "+strconv.Itoa(i)] = []Allowance{{Anyone: true, Protocol: corev1.ProtocolTCP, Name: "n" + strconv.Itoa(i)}}
			block := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i / 2), 0, 0}), 16)
			lists["block "+strconv.Itoa(i)] = []Allowance{{Blocks: Ranges(block), Protocol: corev1.ProtocolTCP, First: uint16(i + 1), Last: 90}}
		}
		names := slices.Collect(func(yield func(string) bool) {
			for name := range lists {
				if !yield(name) {
					return
				}
			}
		})
		slices.Sort(names)
		some := func() string {
			if r.IntN(2) == 0 {
				return ""
			}
			return names[r.IntN(len(names))]
		}
		pods := map[netip.Addr]PolicyPod{}
		for step := range 60 {
			next := map[netip.Addr]PolicyPod{}
			for last := range byte(8) {
				at := netip.AddrFrom4([4]byte{10, 0, 0, last})
				was, known := pods[at]
				switch r.IntN(4) {
				case 0: // it is gone, or was not there
				case 1:
					p := PolicyPod{Ingress: some(), Egress: some()}
					for g := range 6 {
						if r.IntN(3) == 0 {
							p.Groups = append(p.Groups, strconv.Itoa(g))
						}
						if r.IntN(3) == 0 {
							p.Ports = append(p.Ports, NamedPort{"n" + strconv.Itoa(g), corev1.ProtocolTCP, uint16(80 + r.IntN(2))})
						}
					}
					next[at] = p
				default:
					if known {
						next[at] = was
					}
				}
			}
			pods = next
			setPolicies(t, n, &Policies{Pods: pods, Lists: lists})
			setPolicies(t, m, nil)
			setPolicies(t, m, &Policies{Pods: pods, Lists: lists})
			got, want := policyContents(t, n), policyContents(t, m)
			if !slices.Equal(got, want) {
				t.Fatalf("step %d: the tables have\n%q,\nwant\n%q", step, got, want)
			}
		}
	})
}

// policyContents lists what the tables of policies have that differs between policies.
func policyContents(t *testing.T, n *Network) (contents []string) {
	t.Helper()
	conn, err := openNFT()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyBridge} {
		table := &nftables.Table{Family: family, Name: n.bridge.name + policiesSuffix}
		sets, err := conn.GetSets(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range sets {
			elements, err := conn.GetSetElements(set)
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, "set "+set.Name)
			for _, e := range elements {
				to := ""
				if e.VerdictData != nil {
					to = e.VerdictData.Chain
				}
				contents = append(contents, fmt.Sprintf("%s: %x %v %s", set.Name, e.Key, e.IntervalEnd, to))
			}
		}
		chains, err := conn.ListChainsOfTableFamily(family)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range chains {
			if c.Table.Name != table.Name {
				continue
			}
			rules, err := conn.GetRules(table, c)
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, fmt.Sprintf("chain %s: %d rules", c.Name, len(rules)))
		}
	}
	slices.Sort(contents)
	return contents
}
