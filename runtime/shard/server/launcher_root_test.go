package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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
