package network

import (
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/runtime/pins"
	"github.com/jobd/jobd/runtime/thread"
)

// inOwnNetwork runs a test in a network namespace that stands for a host, with one interface besides lo: what the test
// does affects neither the machine nor other tests.
func inOwnNetwork(t testing.TB, fn func()) {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	done := make(chan error, 1)
	go func() {
		defer close(done) // also when the test has failed
		runtime.LockOSThread()
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			if err := loopback(); err != nil {
				return err
			}
			fn()
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// open makes a network in the thread's namespace.
func open(t testing.TB, root string, mode Mode) *Network {
	t.Helper()
	n, err := Open(Options{Root: root, State: root, Mode: mode, HostIP: "192.0.2.1", Pins: &pins.Pins{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// withAndWithoutFib runs a test on a host whose kernel has nft's expression fib, and on one whose kernel lacks it.
func withAndWithoutFib(t *testing.T, test func(t *testing.T, open func(Options) *Network)) {
	for name, without := range map[string]bool{"with nft's fib": false, "without nft's fib": true} {
		t.Run(name, func(t *testing.T) {
			inOwnNetwork(t, func() {
				test(t, func(o Options) *Network {
					o.State, o.Mode, o.Pins = o.Root, Bridge, &pins.Pins{}
					o.Logger, o.withoutFib = slog.New(slog.DiscardHandler), without
					n, err := Open(o)
					if err != nil {
						t.Fatal(err)
					}
					return n
				})
			})
		})
	}
}

// remove takes a network away again.
func (n *Network) remove(t testing.TB, root string) {
	uids, err := n.Held()
	if err != nil {
		t.Error(err)
	}
	for _, uid := range uids {
		if err := n.TearDown(uid); err != nil {
			t.Error(err)
		}
	}
	if err := Clean(root); err != nil {
		t.Error(err)
	}
}

func newPod(uid string, containers int) *corev1.Pod {
	p := &corev1.Pod{}
	p.UID = types.UID(uid)
	p.Spec.Containers = make([]corev1.Container, containers)
	return p
}

func setUp(t testing.TB, n *Network, p *corev1.Pod) Attachment {
	t.Helper()
	a, err := n.SetUp(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// inside runs fn in the network namespace of a pod.
func inside(t testing.TB, a Attachment, fn func() error) error {
	t.Helper()
	ns, err := os.Open(a.Namespaces[specs.NetworkNamespace])
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	return thread.Run(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return fn()
	})
}

func links(t testing.TB) (names []string) {
	t.Helper()
	list, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		names = append(names, l.Attrs().Name)
	}
	slices.Sort(names)
	return names
}

func BenchmarkPod(b *testing.B) {
	inOwnNetwork(b, func() {
		root := b.TempDir()
		n := open(b, root, Bridge)
		defer n.remove(b, root)
		i := 0
		for b.Loop() {
			p := newPod("pod-"+strconv.Itoa(i), 1)
			i++
			setUp(b, n, p)
			if err := n.TearDown(string(p.UID)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
