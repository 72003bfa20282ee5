package network

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// withAndWithoutBridgedFilter runs a test on a host where netfilter sees what is bridged, and on one where it does not.
func withAndWithoutBridgedFilter(t *testing.T, test func(t *testing.T)) {
	for name, value := range map[string]string{"netfilter sees what is bridged": "1", "it does not": "0"} {
		t.Run(name, func(t *testing.T) {
			inOwnNetwork(t, func() {
				if err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte(value), 0); err != nil && value == "1" {
					t.Skip("this kernel has no br_netfilter")
				}
				test(t)
			})
		})
	}
}

func addressOf(a Attachment) netip.Addr { return netip.MustParseAddr(a.IPs[0]) }

func setPolicies(t testing.TB, n *Network, p *Policies) {
	t.Helper()
	if err := n.SetPolicies(p); err != nil {
		t.Fatal(err)
	}
}

// TestPoliciesInTheKernel compares what the kernel lets pass with what Policies.Allow says.
func TestPoliciesInTheKernel(t *testing.T) {
	withAndWithoutBridgedFilter(t, func(t *testing.T) {
		root := t.TempDir()
		other := openElsewhere(t)
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		pods := map[string]Attachment{}
		for _, name := range []string{"a", "b", "c"} {
			pods[name] = setUp(t, n, newPod(name, 1))
			answer(t, pods[name], ":80", name)
			answer(t, pods[name], ":81", name)
		}
		answer(t, other, ":80", "elsewhere")
		host, err := net.Listen("tcp4", ":80")
		if err != nil {
			t.Fatal(err)
		}
		greet(t, host, "host")
		a, b, c := addressOf(pods["a"]), addressOf(pods["b"]), addressOf(pods["c"])
		outside := netip.MustParseAddr(elsewhere)
		web := virtual(n, 5, 80, netip.AddrPortFrom(b, 81))
		setServices(t, n, web)

		lists := map[string][]Allowance{
			"nothing": nil,
			"some": {
				{Group: "friends", Protocol: corev1.ProtocolTCP, First: 80, Last: 80},
				{Blocks: []AddressRange{{outside, outside}}},
			},
			"named": {{Anyone: true, Protocol: corev1.ProtocolTCP, Name: "web"}},
			"far":   {{Blocks: Ranges(netip.MustParsePrefix("0.0.0.0/0"), n.Subnet())}},
			"host":  {{Blocks: []AddressRange{{n.Gateway(), n.Gateway()}}, Protocol: corev1.ProtocolTCP}},
			"range": {{Anyone: true, Protocol: corev1.ProtocolTCP, First: 81, Last: 90}, {Anyone: true, Protocol: corev1.ProtocolUDP}},
		}
		ports := []NamedPort{{"web", corev1.ProtocolTCP, 81}}
		for i, state := range []map[netip.Addr]PolicyPod{
			{},
			{b: {Ingress: "nothing"}},
			{b: {Ingress: "some"}, a: {Groups: []string{"friends"}}},
			{b: {Ingress: "some"}, c: {Groups: []string{"friends"}}, a: {Egress: "host"}},
			{b: {Ingress: "named", Egress: "far", Ports: ports}, c: {Ingress: "nothing", Egress: "nothing"}},
			{b: {Ingress: "named", Ports: ports}, a: {Egress: "named", Ports: []NamedPort{{"web", corev1.ProtocolTCP, 80}}}},
			{b: {Ingress: "range", Egress: "range"}},
			nil,
		} {
			var p *Policies
			if state != nil {
				p = &Policies{Pods: state, Lists: lists}
			}
			if i == 4 { // as after kill -9
				n = open(t, root, Bridge)
				setServices(t, n, web)
			}
			setPolicies(t, n, p)
			if p == nil {
				p = &Policies{}
			}
			var group sync.WaitGroup
			try := func(from Attachment, name string, f Flow, at netip.AddrPort) {
				group.Go(func() {
					f.Protocol = corev1.ProtocolTCP
					allowed := p.Allow(f)
					if err := inside(t, from, func() error {
						if !allowed {
							if !silent(at.String()) {
								return fmt.Errorf("somebody answers")
							}
							return nil
						}
						_, err := ask(at.String())
						return err
					}); err != nil {
						t.Errorf("state %d: %s to %s, allowed %v: %v", i, name, at, allowed, err)
					}
				})
			}
			for from, pod := range pods {
				for _, to := range []netip.Addr{a, b, c} {
					for _, port := range []uint16{80, 81} {
						try(pod, from, Flow{From: addressOf(pod), To: to, Port: port}, netip.AddrPortFrom(to, port))
					}
				}
				for _, to := range []netip.Addr{outside, n.Gateway()} {
					try(pod, from, Flow{From: addressOf(pod), To: to, Port: 80}, netip.AddrPortFrom(to, 80))
				}
				try(pod, from+" by a Service", Flow{From: addressOf(pod), To: b, Port: 81}, web.At)
			}
			group.Wait()
			for _, to := range []netip.Addr{a, b, c} {
				if _, err := ask(netip.AddrPortFrom(to, 80).String()); err != nil {
					t.Errorf("state %d: the host to %s: %v", i, to, err)
				}
			}
		}
		if there := policyTables(t, n); there != 0 {
			t.Errorf("%d tables are left without policies", there)
		}
	})
}

// policyTables counts the nft tables of policies.
func policyTables(t *testing.T, n *Network) (count int) {
	t.Helper()
	conn, err := openNFT()
	if err != nil {
		t.Fatal(err)
	}
	all, err := conn.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range all {
		if table.Name == n.bridge.name+policiesSuffix {
			count++
		}
	}
	return count
}

// echo answers with what it hears at a TCP port of a pod, until the test ends.
func echo(t *testing.T, a Attachment, address string) {
	t.Helper()
	var l net.Listener
	if err := inside(t, a, func() (err error) {
		l, err = net.Listen("tcp4", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
}

// Connections go on when policies come and change, also those from before the first policy, of which the kernel knows
// nothing.
func TestConnectionsSurviveChangesOfPolicies(t *testing.T) {
	withAndWithoutBridgedFilter(t, func(t *testing.T) {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		server, client := setUp(t, n, newPod("server", 1)), setUp(t, n, newPod("client", 1))
		echo(t, server, ":80")
		dial := func() net.Conn {
			var c net.Conn
			if err := inside(t, client, func() (err error) {
				c, err = net.DialTimeout("tcp4", server.IPs[0]+":80", time.Minute)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		goesOn := func(when string, c net.Conn) {
			t.Helper()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			fmt.Fprintln(c, "still there")
			if said, err := bufio.NewReader(c).ReadString('\n'); err != nil || said != "still there\n" {
				t.Errorf("%s: %q, %v", when, said, err)
			}
		}
		lists := map[string][]Allowance{
			"port 80": {{Anyone: true, Protocol: corev1.ProtocolTCP, First: 80, Last: 80}},
			"group":   {{Group: "clients", Protocol: corev1.ProtocolTCP, First: 80, Last: 80}},
			"nothing": nil,
		}
		state := func(server, client PolicyPod, more ...netip.Addr) *Policies {
			p := &Policies{Pods: map[netip.Addr]PolicyPod{}, Lists: lists}
			for _, at := range more {
				p.Pods[at] = PolicyPod{Ingress: "nothing", Groups: []string{"clients"}}
			}
			p.Pods[netip.MustParseAddr(n.Addresses()["server"].String())] = server
			p.Pods[n.Addresses()["client"]] = client
			return p
		}
		before := dial()
		goesOn("without policies", before)
		setPolicies(t, n, state(PolicyPod{Ingress: "port 80", Egress: "nothing"}, PolicyPod{Ingress: "nothing", Egress: "port 80"}))
		goesOn("from before the first policy", before)
		after := dial()
		for when, p := range map[string]*Policies{
			"another list": state(
				PolicyPod{Ingress: "group", Egress: "nothing"},
				PolicyPod{Ingress: "nothing", Egress: "port 80", Groups: []string{"clients"}},
			),
			"one pod more": state(
				PolicyPod{Ingress: "port 80", Egress: "nothing"}, PolicyPod{Ingress: "nothing", Egress: "port 80"},
				add(addressOf(client), 7),
			),
			"no policy":         nil,
			"not isolated":      state(PolicyPod{}, PolicyPod{}),
			"no longer allowed": state(PolicyPod{Ingress: "nothing", Egress: "nothing"}, PolicyPod{Ingress: "nothing", Egress: "nothing"}),
		} {
			setPolicies(t, n, p)
			goesOn(when, before)
			goesOn(when, after)
		}
		n = open(t, root, Bridge)
		setPolicies(t, n, state(PolicyPod{Ingress: "port 80"}, PolicyPod{}))
		goesOn("after a restart", before)
		goesOn("after a restart", after)
	})
}

// What is sent to many pods at once, and datagrams of a conversation that is forbidden by now, do not get to an isolated
// pod. What the host sends afterwards does, and so nothing is on its way any more then.
func TestDatagramsAndPolicies(t *testing.T) {
	withAndWithoutBridgedFilter(t, func(t *testing.T) {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		receiver, sender := setUp(t, n, newPod("receiver", 1)), setUp(t, n, newPod("sender", 1))
		in, out := listenUDP(t, receiver, ":80"), listenUDP(t, sender, sender.IPs[0]+":1000")
		send := func(words string, to string) {
			t.Helper()
			if _, err := out.WriteTo([]byte(words), net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(to), 80))); err != nil {
				t.Fatal(err)
			}
		}
		fromHost := func(words string) {
			t.Helper()
			c, err := net.Dial("udp4", receiver.IPs[0]+":80")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, words); err != nil {
				t.Fatal(err)
			}
			hears(t, in, words)
		}
		all := add(n.Subnet().Addr(), 1<<(32-subnetBits)-1).String()
		lists := map[string][]Allowance{"nothing": nil, "udp": {{Anyone: true, Protocol: corev1.ProtocolUDP}}}
		state := func(ingress, egress string) {
			t.Helper()
			setPolicies(t, n, &Policies{Lists: lists, Pods: map[netip.Addr]PolicyPod{
				addressOf(receiver): {Ingress: ingress}, addressOf(sender): {Egress: egress},
			}})
		}
		state("udp", "udp")
		send("allowed", receiver.IPs[0])
		hears(t, in, "allowed")
		for i, forbidden := range [][2]string{{"nothing", ""}, {"", "nothing"}} {
			state(forbidden[0], forbidden[1])
			send("forbidden by now", receiver.IPs[0])
			send("to many", all)
			fromHost("from the host " + strconv.Itoa(i))
		}
		state("udp", "")
		send("allowed again", receiver.IPs[0])
		hears(t, in, "allowed again")
	})
}

// Whoever gets the address of a pod that is gone gets nothing of its conversations, and is not from before the policies.
func TestNextPodAtAnAddress(t *testing.T) {
	withAndWithoutBridgedFilter(t, func(t *testing.T) {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		n.prepared.wanted = 1
		if _, err := n.prepare(); err != nil {
			t.Fatal(err)
		}
		lists := map[string][]Allowance{"nothing": nil}
		setPolicies(t, n, &Policies{Lists: lists})
		receiver, sender := setUp(t, n, newPod("receiver", 1)), setUp(t, n, newPod("sender", 1))
		state := func(pods map[netip.Addr]PolicyPod) { setPolicies(t, n, &Policies{Lists: lists, Pods: pods}) }
		state(map[netip.Addr]PolicyPod{addressOf(receiver): {}, addressOf(sender): {}})
		for _, line := range policyContents(t, n) {
			if strings.HasPrefix(line, "before: ") {
				t.Errorf("a pod that came later is from before the policies: %s", line)
			}
		}
		in, out := listenUDP(t, receiver, ":80"), listenUDP(t, sender, sender.IPs[0]+":1000")
		send := func(words string) {
			t.Helper()
			if _, err := out.WriteTo([]byte(words), net.UDPAddrFromAddrPort(netip.AddrPortFrom(addressOf(receiver), 80))); err != nil {
				t.Fatal(err)
			}
		}
		send("a question")
		hears(t, in, "a question")
		if _, err := in.WriteTo([]byte("the answer"), net.UDPAddrFromAddrPort(netip.AddrPortFrom(addressOf(sender), 1000))); err != nil {
			t.Fatal(err)
		}
		hears(t, out, "the answer")
		state(map[netip.Addr]PolicyPod{addressOf(sender): {}})
		state(map[netip.Addr]PolicyPod{addressOf(sender): {}, addressOf(receiver): {Ingress: "nothing"}})
		send("to the one before")
		c, err := net.Dial("udp4", receiver.IPs[0]+":80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "from the host"); err != nil {
			t.Fatal(err)
		}
		hears(t, in, "from the host")
	})
}

// A packet that belongs to no connection does not open a way for one.
func TestPoliciesLookAtEachBeginning(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		server, client := setUp(t, n, newPod("server", 1)), setUp(t, n, newPod("client", 1))
		answer(t, server, ":80", "server")
		// Both are from before the first policy, so what is no beginning passes, and is tracked.
		setPolicies(t, n, &Policies{
			Lists: map[string][]Allowance{"nothing": nil},
			Pods:  map[netip.Addr]PolicyPod{addressOf(server): {Ingress: "nothing"}},
		})
		if err := inside(t, client, func() error {
			acknowledgement := segment(addressOf(client), addressOf(server), 1000, 80, tcpAck)
			return sendFrameFrom(hardwareAddress(addressOf(client)), hardwareAddress(addressOf(server)), 0x0800, acknowledgement)
		}); err != nil {
			t.Fatal(err)
		}
		if err := inside(t, client, func() error {
			d := net.Dialer{Timeout: time.Second, LocalAddr: &net.TCPAddr{Port: 1000}}
			if c, err := d.Dial("tcp4", server.IPs[0]+":80"); err == nil {
				c.Close()
				return fmt.Errorf("somebody answers")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

// Only the first fragment of a datagram says for which port it is.
func TestFragmentsAndPolicies(t *testing.T) {
	withAndWithoutBridgedFilter(t, func(t *testing.T) {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		receiver, sender := setUp(t, n, newPod("receiver", 1)), setUp(t, n, newPod("sender", 1))
		closed, opened := listenUDP(t, receiver, ":80"), listenUDP(t, receiver, ":81")
		out := listenUDP(t, sender, sender.IPs[0]+":1000")
		setPolicies(t, n, &Policies{
			Lists: map[string][]Allowance{"81": {{Anyone: true, Protocol: corev1.ProtocolUDP, First: 81, Last: 81}}},
			Pods:  map[netip.Addr]PolicyPod{addressOf(receiver): {Ingress: "81"}},
		})
		send := func(words string, port uint16) {
			t.Helper()
			to := netip.AddrPortFrom(addressOf(receiver), port)
			if _, err := out.WriteTo([]byte(words), net.UDPAddrFromAddrPort(to)); err != nil {
				t.Fatal(err)
			}
		}
		long := strings.Repeat("a datagram of three frames ", 150)
		send(long, 80)
		send(long, 81)
		hears(t, opened, long) // so the one before has arrived, or was dropped
		c, err := net.Dial("udp4", receiver.IPs[0]+":80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "from the host"); err != nil {
			t.Fatal(err)
		}
		hears(t, closed, "from the host")
	})
}

// segment returns an IPv4 packet with a segment of TCP without data.
func segment(from, to netip.Addr, source, destination uint16, flags byte) []byte {
	tcp := make([]byte, 20)
	tcp[0], tcp[1] = byte(source>>8), byte(source)
	tcp[2], tcp[3] = byte(destination>>8), byte(destination)
	tcp[7], tcp[11], tcp[12], tcp[13], tcp[14] = 1, 1, 5<<4, flags, 0xff
	pseudo := append(append(from.AsSlice(), to.AsSlice()...), 0, 6, 0, 20)
	sum := checksum(pseudo, tcp)
	tcp[16], tcp[17] = byte(sum>>8), byte(sum)
	ip := append([]byte{0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0}, append(from.AsSlice(), to.AsSlice()...)...)
	sum = checksum(ip)
	ip[10], ip[11] = byte(sum>>8), byte(sum)
	return append(ip, tcp...)
}

// BenchmarkPolicies is what it costs to isolate one pod more, and to let it go again, beside 500 others.
func BenchmarkPolicies(b *testing.B) {
	inOwnNetwork(b, func() {
		root := b.TempDir()
		n := open(b, root, Bridge)
		defer n.remove(b, root)
		lists := map[string][]Allowance{}
		for i := range 20 {
			lists[strconv.Itoa(i)] = []Allowance{{Group: strconv.Itoa(i), Protocol: corev1.ProtocolTCP, First: 80, Last: 80}}
		}
		state := func(pods int) *Policies {
			p := &Policies{Pods: map[netip.Addr]PolicyPod{}, Lists: lists}
			for i := range pods {
				of := strconv.Itoa(i % 20)
				p.Pods[add(n.Gateway(), uint32(i+1))] = PolicyPod{Ingress: of, Groups: []string{of}}
			}
			return p
		}
		few, more := state(500), state(501)
		setPolicies(b, n, few)
		for b.Loop() {
			setPolicies(b, n, more)
			setPolicies(b, n, few)
		}
	})
}
