package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/pins"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

func TestSharedMountsAreNotMountedOnTheHostAgain(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	dir, rootfs := t.TempDir(), t.TempDir()
	must(t, unix.Mount("none", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	must(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	below := filepath.Join(dir, "below")
	must(t, os.Mkdir(below, 0o700))
	mounts := func() int {
		t.Helper()
		content, err := os.ReadFile("/proc/self/mountinfo")
		must(t, err)
		return strings.Count(string(content), " "+dir)
	}
	before := mounts()
	l, err := newLauncher("", 0)
	must(t, err)
	files, err := nullFiles(hostNull)
	must(t, err)
	defer protocol.CloseAll(files[:])
	pid, _, err := l.launch(t.Context(), launch{shared: []string{dir, dir, below}, rootfs: rootfs, argv: []string{"/bin/true"}, files: files})
	must(t, err)
	var status unix.WaitStatus
	_, err = unix.Wait4(pid, &status, 0, nil)
	must(t, err)
	if after := mounts(); after != before {
		t.Errorf("%d mounts of it on the host, there was %d", after, before)
	}
}

func TestThreadsThatLaunchAreBounded(t *testing.T) {
	l, err := newLauncher("", 0)
	must(t, err)
	for range 3 * mostThreads {
		l.addThread()
	}
	if got := l.threads.Load(); got != mostThreads {
		t.Errorf("%d threads", got)
	}
}

// A program finds pinned namespaces at their paths, and nothing of where they are pinned.
func TestPinsAreMountedForWhatIsLaunched(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	state := layout.State(dir)
	kept, err := pins.Open(state, false, slog.New(slog.DiscardHandler))
	must(t, err)
	t.Cleanup(func() { must(t, kept.Close()) })
	namespace, err := os.Open("/proc/self/ns/ipc")
	must(t, err)
	defer namespace.Close()
	path, out := filepath.Join(state.Network(), "ipc"), filepath.Join(dir, "out")
	must(t, os.Mkdir(state.Network(), 0o700))
	must(t, kept.Pin(path, namespace))
	t.Cleanup(func() { must(t, pins.Unpin(path)) })
	if hidden, err := kept.Hides(path); err != nil || !hidden {
		t.Skip("no mount namespace can be made for pins here")
	}
	l, err := newLauncher("", 0)
	must(t, err)
	files, err := nullFiles(hostNull)
	must(t, err)
	defer protocol.CloseAll(files[:])
	at := &protocol.Pins{In: kept.Mounts(), Paths: []string{path}}
	for range 2 { // the second time the thread comes from the namespace of the first
		pid, _, err := l.launch(t.Context(), launch{pins: at, rootfs: dir, files: files, inPlace: true, argv: []string{"/bin/sh", "-c",
			"(stat -L -c %i " + path + " /proc/self/ns/ipc; ls -l /proc/self/fd | grep -c -e ipc: -e mnt: -e ' /$') >" + out}})
		must(t, err)
		var status unix.WaitStatus
		_, err = unix.Wait4(pid, &status, 0, nil)
		must(t, err)
		said, err := os.ReadFile(out)
		must(t, err)
		lines := strings.Fields(string(said))
		if len(lines) != 3 || lines[0] != lines[1] || lines[2] != "0" {
			t.Errorf("it sees %q", lines)
		}
	}
	if _, _, err := l.launch(t.Context(), launch{
		pins: at, shared: []string{state.Network()}, rootfs: dir, files: files, argv: []string{"/bin/true"},
	}); !errors.Is(err, errdefs.ErrFailedPrecondition) {
		t.Errorf("a pin in a tree that is shared with the host: %v", err)
	}
	at.Paths[0] += "-gone"
	if _, _, err := l.launch(t.Context(), launch{pins: at, rootfs: dir, files: files, argv: []string{"/bin/true"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a pin that is gone: %v", err)
	}
}
