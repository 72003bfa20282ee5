package userns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/pins"
)

var few = IDs{First: 0x7f000000, Count: 2 * Size}

func open(t *testing.T, dir string) *Namespaces {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	n, err := Open(Options{Dir: dir, IDs: few, Owner: "a", On: []string{dir}, Pins: &pins.Pins{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Supported(); err != nil {
		t.Skip(err)
	}
	return n
}

// fresh returns a directory that all users may pass through, with no pod left in it at the end.
func fresh(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "jobd-userns.")
	if err != nil {
		t.Skip(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, _ := filepath.Glob(dir + "/pods/*/*")
		for _, path := range left {
			_ = unix.Unmount(path, unix.MNT_DETACH)
		}
		_ = os.RemoveAll(dir)
	})
	return dir + "/pods"
}

func has(n *Namespaces, path string) bool {
	_, err := n.pins.Reach(path)
	return err == nil
}

func setUp(t *testing.T, n *Namespaces, uid string) *Namespace {
	t.Helper()
	own, err := n.SetUp(uid)
	if err != nil {
		t.Fatal(err)
	}
	return own
}

func TestAPodHasItsOwnNamespaces(t *testing.T) {
	n := open(t, fresh(t))
	own := setUp(t, n, "p")
	out, err := exec.Command("nsenter", "--user="+own.Paths[specs.UserNamespace], "--net="+own.Paths[specs.NetworkNamespace],
		"--ipc="+own.Paths[specs.IPCNamespace], "sh", "-c",
		"cat /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups; id -u; echo 7 >/proc/sys/net/ipv4/ip_default_ttl").CombinedOutput()
	line := fmt.Sprintf("0 %d 65536", own.First)
	if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != line+" "+line+" allow 0" {
		t.Errorf("%q, %v", got, err)
	}
	if err := n.TearDown("p"); err != nil {
		t.Error(err)
	}
	if held, err := n.Held(); len(held) > 0 || err != nil {
		t.Errorf("held is %q, %v", held, err)
	}
}

func TestNoRangeIsGivenTwice(t *testing.T) {
	dir := fresh(t)
	n := open(t, dir)
	a, b := setUp(t, n, "a"), setUp(t, n, "b")
	if a.First == b.First || a.First < few.First || b.First < few.First {
		t.Errorf("%d and %d", a.First, b.First)
	}
	if _, err := n.SetUp("c"); !errors.Is(err, errdefs.ErrResourceExhausted) || !strings.Contains(err.Error(), "all 2 ranges") {
		t.Errorf("a third one: %v", err)
	}
	n = open(t, dir) // as after a kill
	if !n.Has("a") || !n.Has("b") || n.Has("c") {
		t.Error("it does not know who has one")
	}
	if again := setUp(t, n, "a"); again.First != a.First {
		t.Errorf("%d, then %d", a.First, again.First)
	}
	if _, err := n.SetUp("c"); !errors.Is(err, errdefs.ErrResourceExhausted) {
		t.Errorf("a third one after a restart: %v", err)
	}
	if err := n.TearDown("b"); err != nil {
		t.Fatal(err)
	}
	if c := setUp(t, n, "c"); c.First != b.First {
		t.Errorf("got %d, want what was free: %d", c.First, b.First)
	}
	for _, uid := range []string{"a", "b", "c", "c"} {
		if err := n.TearDown(uid); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatAKillHasLeftIsPutRight(t *testing.T) {
	dir := fresh(t)
	for name, left := range map[string]func(own *Namespace) error{
		"only the record": func(own *Namespace) error {
			for _, path := range own.Paths {
				if err := errors.Join(unix.Unmount(path, unix.MNT_DETACH), os.Remove(path)); err != nil {
					return err
				}
			}
			return nil
		},
		"some pins": func(own *Namespace) error { return unix.Unmount(own.Paths[specs.UserNamespace], unix.MNT_DETACH) },
		"all":       func(*Namespace) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			n := open(t, dir)
			own := setUp(t, n, "p")
			if err := left(own); err != nil {
				t.Fatal(err)
			}
			n = open(t, dir)
			if again := setUp(t, n, "p"); again.First != own.First || !has(n, again.Paths[specs.UserNamespace]) {
				t.Errorf("%+v, then %+v", own, again)
			}
			if err := left(own); err != nil {
				t.Fatal(err)
			}
			n = open(t, dir)
			if err := n.TearDown("p"); err != nil || n.Has("p") {
				t.Errorf("torn down: %v", err)
			}
		})
	}
}

func TestADirectoryOnTheWayIsClosed(t *testing.T) {
	dir := fresh(t)
	open(t, dir) // skips where there is nothing to test
	if err := os.Chmod(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	n, err := Open(Options{Dir: dir, IDs: few})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.SetUp("p"); !errors.Is(err, errdefs.ErrNotImplemented) || !strings.Contains(err.Error(), "chmod a+x "+filepath.Dir(dir)) {
		t.Errorf("got %v", err)
	}
}
