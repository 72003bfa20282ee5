package listen

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Whoever has all ports that are given out keeps pods from nothing.
func TestPortsThatSomebodyElseHas(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a network with few ports")
	}
	runtime.LockOSThread() // it ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40001"), 0); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{":40000", ":40001"} {
		thief, err := net.Listen("tcp4", at)
		if err != nil {
			t.Fatal(err)
		}
		defer thief.Close()
	}
	all := netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	for _, want := range []uint16{highestOfRoot, highestOfRoot - 1} {
		l, err := ForPods(all, netip.Prefix{}, &Authority{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if got := l.Addr().(*net.TCPAddr).AddrPort().Port(); got != want {
			t.Errorf("port %d, want %d", got, want)
		}
	}
	if l, err := ForPods(netip.AddrPortFrom(all.Addr(), 40000), netip.Prefix{}, &Authority{}); err == nil {
		t.Errorf("another one than it was asked for: %s", l.Addr())
	}
}
