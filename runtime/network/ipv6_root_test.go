package network

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/thread"
)

// The link of a pod has no IPv6 at either end from the moment it exists. Other interfaces, such as those that a pod makes
// itself, are as they are anywhere.
func TestLinksHaveNoIPv6(t *testing.T) {
	inOwnNetwork(t, func() {
		setting := func(link, name string) string {
			t.Helper()
			value, err := os.ReadFile(filepath.Join(ipv6Settings, link, name))
			if err != nil {
				t.Error(err)
			}
			return strings.TrimSpace(string(value))
		}
		expect := func(where, link, name, want string) {
			t.Helper()
			if got := setting(link, name); got != want {
				t.Errorf("%s: %s of %s is %s, not %s", where, name, link, got, want)
			}
		}
		if _, err := os.Stat(ipv6Settings); os.IsNotExist(err) {
			t.Skip("the kernel has no IPv6")
		}
		// What a new namespace begins with depends on the host.
		var disabled, advertised string
		err := thread.Run(func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			disabled, advertised = setting("default", "disable_ipv6"), setting("default", "accept_ra")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}

		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		p := newPod("pod", 1)
		a := setUp(t, n, p)
		link := linkName(n.addresses.of("pod"))
		expect("host", link, "addr_gen_mode", "1")
		expect("host", n.bridge.name, "disable_ipv6", "1")
		if err := inside(t, a, func() error {
			expect("pod", podInterface, "disable_ipv6", "1")
			expect("pod", podInterface, "accept_ra", "0")
			expect("pod", "lo", "disable_ipv6", disabled)
			expect("pod", "default", "disable_ipv6", disabled)
			expect("pod", "default", "accept_ra", advertised)
			all, err := os.ReadFile("/proc/thread-self/net/if_inet6")
			if strings.Contains(string(all), podInterface) {
				t.Errorf("%s has an IPv6 address: %s", a.Namespaces[specs.NetworkNamespace], all)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}
