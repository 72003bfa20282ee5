package network

import (
	"bytes"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestListingOfTheRules: whatever the tables hold, the administrator's nft lists the rules of the host: that of Debian 12
// (1.0.6) aborts at some that the kernel takes.
func TestListingOfTheRules(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft (nftables)")
	}
	withAndWithoutFib(t, func(t *testing.T, open func(Options) *Network) {
		root := t.TempDir()
		n := open(Options{Root: root})
		defer n.remove(t, root)
		list := func(state string, holds ...string) {
			t.Helper()
			var first []byte
			for _, args := range [][]string{{"list", "ruleset"}, {"list", "ruleset"}, {"-j", "list", "ruleset"}, {"-a", "-s", "list", "ruleset"}} {
				var out, complaints bytes.Buffer
				c := exec.Command("nft", args...)
				c.Stdout, c.Stderr = &out, &complaints
				if err := c.Run(); err != nil || complaints.Len() > 0 {
					t.Fatalf("%s: nft %s: %v, %s", state, strings.Join(args, " "), err, complaints.String())
				}
				if first == nil {
					first = out.Bytes()
				}
			}
			for _, word := range holds {
				if !strings.Contains(string(first), word) {
					t.Errorf("%s: %q is not in\n%s", state, word, first)
				}
			}
		}
		list("nothing", n.bridge.name)
		if err := n.LeadToAPI(6443); err != nil {
			t.Fatal(err)
		}
		list("the API")
		a, b := setUp(t, n, newPod("a", 1)), setUp(t, n, newPod("b", 1))
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
			setUp(t, n, withPort("any"+string(protocol), "", 8080, protocol))
			setUp(t, n, withPort("one"+string(protocol), "127.0.0.1", 8081, protocol))
		}
		list("ports of the host", "8081")

		plain, two, headless, host, external := virtual(n, 5, 80, to(80, a)...), virtual(n, 5, 81, to(80, a, b)...), virtual(n, 6, 80),
			virtual(n, 7, 80, to(80, a, b)...), virtual(n, 8, 80, to(80, a)...)
		host.NodePort, host.Protocol = 30080, corev1.ProtocolUDP
		external.External, external.Protocol = []netip.Addr{netip.MustParseAddr("192.0.2.77")}, corev1.ProtocolSCTP
		services := []ServicePort{plain, two, headless, host, external}
		setServices(t, n, services...)
		list("Services", "numgen random mod 2", "192.0.2.77")
		for i := range services {
			services[i].Affinity, services[i].Namespace = time.Duration(i+1)*time.Hour, "team"
		}
		answer(t, a, ":80", "a")
		setServices(t, n, services...)
		list("Services with affinity", "flags dynamic,timeout", "timeout 1h")
		if _, err := ask(plain.At.String()); err != nil {
			t.Fatal(err)
		}
		list("a client", "expires")

		everything := &Policies{Pods: map[netip.Addr]PolicyPod{}, Lists: map[string][]Allowance{
			"none": {},
			"all": {
				{Group: "friends"}, {Group: "friends", Protocol: corev1.ProtocolTCP, First: 80, Last: 80},
				{Anyone: true, Protocol: corev1.ProtocolUDP}, {Anyone: true, Protocol: corev1.ProtocolSCTP, First: 1, Last: 65535},
				{Anyone: true, Protocol: corev1.ProtocolTCP, Name: "web"},
				{Blocks: Ranges(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16"))},
				{Blocks: Ranges(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("255.0.0.0/8")), Protocol: corev1.ProtocolTCP, First: 443, Last: 443},
				{Blocks: Ranges(netip.MustParsePrefix("128.0.0.0/1"))},
			},
		}}
		for ip, p := range map[string]PolicyPod{
			a.IPs[0]: {Ingress: "all", Egress: "none", Groups: []string{"friends"}, Ports: []NamedPort{{"web", corev1.ProtocolTCP, 80}}},
			b.IPs[0]: {Ingress: "none", Egress: "all"},
		} {
			everything.Pods[netip.MustParseAddr(ip)] = p
		}
		if err := n.SetPolicies(everything); err != nil {
			t.Fatal(err)
		}
		list("policies", "blocks-")
		setServices(t, n)
		if err := n.SetPolicies(nil); err != nil {
			t.Fatal(err)
		}
		list("nothing again")
	})
}
