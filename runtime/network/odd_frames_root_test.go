package network

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// behind returns a frame's payload behind a VLAN tag.
func behind(vlan, kind uint16, payload []byte) []byte {
	return append([]byte{byte(vlan >> 8), byte(vlan), byte(kind >> 8), byte(kind)}, payload...)
}

const tooLong = "a packet that is longer than it is"

// oddFrames are frames that carry a proper datagram or ARP message of their sender in some other way than alone, and others that
// nobody on a bridge of jobd sends.
func oddFrames(from, to netip.Addr, port uint16, words string) map[string]struct {
	kind    uint16
	payload []byte
} {
	d := datagram(netip.AddrPortFrom(from, 1000), netip.AddrPortFrom(to, port), words)
	arp := arpReply(from, hardwareAddress(from), to, hardwareAddress(to))
	ipv6 := append([]byte{0x60, 0, 0, 0, 0, byte(8 + len(words)), unix.IPPROTO_UDP, 64}, make([]byte, 32)...)
	ipv6 = append(append(ipv6, d[20:28]...), words...)
	snap := append([]byte{0xaa, 0xaa, 3, 0, 0, 0, 8, 0}, d...)
	pppoe := append(binary.BigEndian.AppendUint16([]byte{0x11, 0, 0, 1}, uint16(len(d)+2)), append([]byte{0, 0x21}, d...)...)
	return map[string]struct {
		kind    uint16
		payload []byte
	}{
		"behind a tag without a number":      {unix.ETH_P_8021Q, behind(0, unix.ETH_P_IP, d)},
		"behind a tag with a priority":       {unix.ETH_P_8021Q, behind(5<<13, unix.ETH_P_IP, d)},
		"behind a tag":                       {unix.ETH_P_8021Q, behind(5, unix.ETH_P_IP, d)},
		"behind a tag of the provider":       {unix.ETH_P_8021AD, behind(5, unix.ETH_P_IP, d)},
		"behind two tags (QinQ)":             {unix.ETH_P_8021AD, behind(5, unix.ETH_P_8021Q, behind(6, unix.ETH_P_IP, d))},
		"behind two tags of the same kind":   {unix.ETH_P_8021Q, behind(5, unix.ETH_P_8021Q, behind(6, unix.ETH_P_IP, d))},
		"behind two tags without numbers":    {unix.ETH_P_8021Q, behind(0, unix.ETH_P_8021Q, behind(0, unix.ETH_P_IP, d))},
		"behind three tags":                  {unix.ETH_P_8021AD, behind(1, unix.ETH_P_8021AD, behind(2, unix.ETH_P_8021Q, behind(3, unix.ETH_P_IP, d)))},
		"ARP behind a tag":                   {unix.ETH_P_8021Q, behind(5, unix.ETH_P_ARP, arp)},
		"IPv6":                               {unix.ETH_P_IPV6, ipv6},
		"IPv6 behind a tag":                  {unix.ETH_P_8021Q, behind(5, unix.ETH_P_IPV6, ipv6)},
		"IPv4 that says that it is IPv6":     {unix.ETH_P_IPV6, d},
		"IPv6 that says that it is IPv4":     {unix.ETH_P_IP, ipv6},
		"in a frame of 802.3 with SNAP":      {uint16(len(snap)), snap},
		"in PPPoE":                           {unix.ETH_P_PPP_SES, pppoe},
		"in MPLS":                            {unix.ETH_P_MPLS_UC, append([]byte{0, 1, 0x11, 64}, d...)},
		"LLDP":                               {0x88cc, d},
		"a protocol for experiments":         {0x88b5, d},
		"reverse ARP":                        {0x8035, arp},
		"a loopback frame":                   {unix.ETH_P_LOOPBACK, d},
		"ARP of a kind that is not for IPv4": {unix.ETH_P_ARP, append([]byte{0, 1, 0x86, 0xdd, 6, 16, 0, 2}, bytes.Repeat([]byte{7}, 44)...)},
		"a packet without all of its header": {unix.ETH_P_IP, d[:12]},
		tooLong:                              {unix.ETH_P_IP, append([]byte{0x4f}, d[1:20]...)},
	}
}

// TestOddFrames: what is neither IPv4 nor ARP reaches no pod and not the host, whatever it is wrapped in, and so no way past
// policies, which are about IPv4.
func TestOddFrames(t *testing.T) {
	withAndWithoutBridgedFilter(t, func(t *testing.T) {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		if err := n.bridge.guardFrames(); err != nil {
			t.Skipf("needs a kernel whose nf_tables sees bridged frames: %v", err)
		}
		thief, victim, proper := setUp(t, n, newPod("thief", 1)), setUp(t, n, newPod("victim", 1)), setUp(t, n, newPod("proper", 1))
		host, err := net.ListenPacket("udp4", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		port := host.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		lists := map[string][]Allowance{"nothing": nil, "proper": {{Group: "proper"}}}
		friend := PolicyPod{Groups: []string{"proper"}}
		for state, p := range map[string]*Policies{
			"without policies": nil,
			"nothing in":       {Lists: lists, Pods: map[netip.Addr]PolicyPod{addressOf(victim): {Ingress: "proper"}, addressOf(proper): friend}},
			"nothing out":      {Lists: lists, Pods: map[netip.Addr]PolicyPod{addressOf(thief): {Egress: "nothing"}, addressOf(proper): friend}},
		} {
			setPolicies(t, n, p)
			for _, to := range []struct {
				whom string
				ip   netip.Addr
				mac  net.HardwareAddr
				port uint16
			}{
				{"the pod", addressOf(victim), hardwareAddress(addressOf(victim)), 1000},
				{"all", addressOf(victim), net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 1000},
				{"the host", n.Gateway(), hardwareAddressOf(n.bridge.name), port},
			} {
				const words = "what a policy forbids"
				var socket int
				if err := inside(t, victim, func() error { socket = frames(t); return nil }); err != nil {
					t.Fatal(err)
				}
				send := func(from Attachment, kind uint16, payload []byte) {
					t.Helper()
					if err := inside(t, from, func() error { return sendFrame(to.mac, kind, payload) }); err != nil {
						t.Fatal(err)
					}
				}
				for name, f := range oddFrames(addressOf(thief), to.ip, to.port, words) {
					if p == nil && name == tooLong {
						continue // it is IPv4, and for the pod to judge
					}
					send(thief, f.kind, f.payload)
					said := "proper after " + name
					if to.whom == "the host" {
						send(proper, unix.ETH_P_IP, datagram(netip.AddrPortFrom(addressOf(proper), 1000), netip.AddrPortFrom(to.ip, port), said))
						hears(t, host, said)
						continue
					}
					end := datagram(netip.AddrPortFrom(addressOf(proper), 1000), netip.AddrPortFrom(to.ip, 1000), said)
					if err := inside(t, proper, func() error { return sendFrame(hardwareAddress(addressOf(victim)), unix.ETH_P_IP, end) }); err != nil {
						t.Fatal(err)
					}
					for buffer := make([]byte, 2000); ; {
						length, _, err := unix.Recvfrom(socket, buffer, 0)
						if err != nil {
							t.Fatal(err)
						}
						heard := buffer[:length]
						if bytes.Contains(heard, []byte(said)) {
							break
						}
						if bytes.Equal(heard[6:12], hardwareAddress(addressOf(thief))) {
							t.Errorf("%s, to %s: %s arrives: %x", state, to.whom, name, heard)
						}
					}
				}
				unix.Close(socket)
			}
		}
	})
}

// TestFragmentsWithoutABeginning: fragments of a datagram whose ports no policy has seen reach nobody.
func TestFragmentsWithoutABeginning(t *testing.T) {
	withAndWithoutBridgedFilter(t, func(t *testing.T) {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		thief, victim := setUp(t, n, newPod("thief", 1)), setUp(t, n, newPod("victim", 1))
		closed, opened := listenUDP(t, victim, ":80"), listenUDP(t, victim, ":81")
		setPolicies(t, n, &Policies{
			Lists: map[string][]Allowance{"81": {{Anyone: true, Protocol: corev1.ProtocolUDP, First: 81, Last: 81}}},
			Pods:  map[netip.Addr]PolicyPod{addressOf(victim): {Ingress: "81"}},
		})
		from, to := netip.AddrPortFrom(addressOf(thief), 1000), addressOf(victim)
		// fragment makes one of a datagram: what begins at an offset, in units of eight bytes, and whether there is more.
		fragment := func(id byte, packet []byte, offset, length int, more bool) []byte {
			piece := append(bytes.Clone(packet[:20]), packet[20+8*offset:20+8*offset+length]...)
			binary.BigEndian.PutUint16(piece[2:], uint16(len(piece)))
			piece[5] = id
			flags := uint16(offset)
			if more {
				flags |= 1 << 13
			}
			binary.BigEndian.PutUint16(piece[6:], flags)
			piece[10], piece[11] = 0, 0
			sum := checksum(piece[:20])
			binary.BigEndian.PutUint16(piece[10:], uint16(sum))
			return piece
		}
		forbidden := datagram(from, netip.AddrPortFrom(to, 80), "0123456789abcdef")
		allowed := datagram(from, netip.AddrPortFrom(to, 81), "0123456789abcdef")
		if err := inside(t, thief, func() error {
			for _, f := range [][]byte{
				fragment(1, allowed, 1, 16, false), // without a beginning
				fragment(2, forbidden, 0, 8, true), fragment(2, allowed, 1, 16, false),
				// An end that is sent first, and then a beginning for each port: who comes last must not count.
				fragment(3, allowed, 1, 16, false), fragment(3, allowed, 0, 8, true), fragment(3, forbidden, 0, 8, true),
				// Tiny and overlapping ones, which put a port in the place of another.
				fragment(4, allowed, 0, 8, true), fragment(4, forbidden, 0, 16, true), fragment(4, allowed, 1, 16, false),
			} {
				if err := sendFrame(hardwareAddress(to), unix.ETH_P_IP, f); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		hears(t, opened, "0123456789abcdef")
		c, err := net.Dial("udp4", victim.IPs[0]+":80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("from the host")); err != nil {
			t.Fatal(err)
		}
		hears(t, closed, "from the host")
	})
}
