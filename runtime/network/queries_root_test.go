package network

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// A pod that sends queries as fast as it can is heard up to its pace, and others are heard meanwhile. Whatever else it sends is not counted.
func TestAFloodOfQueries(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		flooder, other := setUp(t, n, newPod("flooder", 1)), setUp(t, n, newPod("other", 1))
		heard := map[string]*atomic.Int64{flooder.IPs[0]: {}, other.IPs[0]: {}}
		name, elsewhere := netip.AddrPortFrom(n.bridge.address, 53), netip.AddrPortFrom(n.bridge.address, 54)
		var apart atomic.Int64
		listen := func(at netip.AddrPort, count func(from string)) {
			c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				for {
					_, from, err := c.ReadFromUDP(make([]byte, 16))
					if err != nil {
						return
					}
					count(from.IP.String())
				}
			}()
		}
		listen(name, func(from string) { heard[from].Add(1) })
		listen(elsewhere, func(string) { apart.Add(1) })
		send := func(a Attachment, to netip.AddrPort, times int) {
			if err := inside(t, a, func() error {
				c, err := net.Dial("udp4", to.String())
				if err != nil {
					return err
				}
				defer c.Close()
				for range times {
					_, _ = c.Write([]byte("query"))
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		const sent = 20_000
		send(flooder, name, sent)
		most := burstOfQueries + int64(maxQueries*(time.Since(began)+time.Second).Seconds())
		for limit := time.Now().Add(time.Minute); heard[other.IPs[0]].Load() == 0 || apart.Load() == 0; {
			if time.Now().After(limit) {
				t.Fatal("another pod, or another port, is not heard")
			}
			send(other, name, 1)
			send(flooder, elsewhere, 1)
			time.Sleep(10 * time.Millisecond)
		}
		if got := heard[flooder.IPs[0]].Load(); got == 0 || got > most {
			t.Errorf("%d of %d queries were heard, want 1 to %d", got, sent, most)
		}
	})
}
