package containerd

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSocketIsRootsOnly(t *testing.T) {
	r := newRig(t, "")
	info, err := os.Stat(r.config.State + "/containerd.sock")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	conn, err := net.Dial("unix", r.config.State+"/containerd.sock")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestCloseRightAfterOpen(t *testing.T) {
	r := newRig(t, "")
	for range 50 {
		r.Close()
		r.open(t)
	}
}

// In a container whose root file system is an overlay, no overlay can be mounted: images are copied.
func TestWithoutOverlayfs(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	on := filepath.Join(dir, "merged")
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := "lowerdir=" + dir + "/lower,upperdir=" + dir + "/upper,workdir=" + dir + "/work"
	if err := unix.Mount("overlay", on, "overlay", 0, options); err != nil {
		t.Skip("needs overlayfs: ", err)
	}
	t.Cleanup(func() { unix.Unmount(on, unix.MNT_DETACH) })
	r := newRigIn(t, on, "")
	if r.Snapshotter() != native {
		t.Fatalf("snapshots by %s", r.Snapshotter())
	}
	c := r.container(t, pod("u1", "exit 3"), "main")
	r.start(t, c)
	if s := r.wait(t, c.ID); s.ExitCode != 3 {
		t.Errorf("it ended with %+v", s)
	}
}
