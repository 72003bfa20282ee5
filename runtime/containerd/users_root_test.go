package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/userns"
)

// in returns a function that puts a container into a user namespace.
func in(own *userns.Namespace) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Linux.UIDMappings = []specs.LinuxIDMapping{own.Mapping()}
		s.Linux.GIDMappings = s.Linux.UIDMappings
		s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return own.Paths[n.Type] != "" })
		for kind, path := range own.Paths {
			s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: kind, Path: path})
		}
		s.Linux.Sysctl = nil // the network is made already
	}
}

// A layer that one pod has used is as good as new for the next one, whoever is root in it.
func TestALayerGoesFromUsersToOthers(t *testing.T) {
	r := newRig(t, "")
	if r.server.layers.recycled == nil {
		t.Skip("needs overlayfs")
	}
	if err := os.Chmod(r.config.State, 0o711); err != nil { // the users of pods pass through it
		t.Fatal(err)
	}
	users, err := userns.Open(userns.Options{
		Dir: layout.State(r.config.State).UserNamespaces(), IDs: userns.IDs{First: 0x7f100000, Count: 2 * userns.Size},
		On: []string{r.config.Root, r.config.State}, Pins: r.Pins(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := users.Supported(); err != nil {
		t.Skip(err)
	}
	changes := map[string]func(*specs.Spec){"the host's": func(*specs.Spec) {}}
	roots := map[string]uint32{}
	for _, uid := range []string{"a", "b"} {
		own, err := users.SetUp(uid)
		if err != nil {
			t.Fatal(err)
		}
		defer users.TearDown(uid)
		changes[uid], roots[uid] = in(own), own.First
	}
	const look = "ls -lnd / /bin /etc /bin/busybox | awk '{print $1, $3, $4, $9}'; find / -xdev | sort; touch /mine && ls -ln /mine | awk '{print $3}'"
	fresh := ""
	for i, of := range []string{"the host's", "a", "a", "b", "the host's", "b", "a"} {
		c := r.container(
			t, pod(fmt.Sprint("u", i), look+"; chown 7:8 / /etc /bin/busybox; chmod 4755 /bin/busybox; mkdir -p /left/behind"),
			"main", changes[of],
		)
		r.start(t, c)
		status := r.wait(t, c.ID)
		got := output(t, c.LogPath)
		if fresh == "" {
			fresh = got
		}
		if status.ExitCode != 0 || got != fresh || !strings.HasSuffix(got, "\n0") {
			t.Errorf("start %d, with users of %s: %+v\n%s\nwant\n%s", i, of, status, got, fresh)
		}
		one, _ := r.server.layers.recycled.of(c.ID)
		info, err := os.Stat(filepath.Join(r.server.layers.recycled.dir, one.name, upperDir, "mine"))
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != roots[of] {
			t.Errorf("start %d, with users of %s: what root has made belongs to %d, want %d", i, of, uid, roots[of])
		}
		if err := r.Remove(t.Context(), c.ID); err != nil {
			t.Fatal(err)
		}
		r.cleanup.Wait()
	}
}

// The root directory of an image may belong to a user that the namespace does not have.
func TestAnImageDoesNotReachIntoTheNextRange(t *testing.T) {
	users := specs.LinuxIDMapping{HostID: 131072, Size: 65536}
	for id, want := range map[uint32]uint32{0: 131072, 65535: 196607, 65536: 131072, 1 << 31: 131072} {
		if got := onHost(id, users); got != want {
			t.Errorf("%d is %d, want %d", id, got, want)
		}
		if got := onHost(id, specs.LinuxIDMapping{}); got != id {
			t.Errorf("%d is %d with the host's users", id, got)
		}
	}
}
