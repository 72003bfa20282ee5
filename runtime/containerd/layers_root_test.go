package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"

	"github.com/jobd/jobd/internal/layout"
)

func TestALayerThatACrashLeftHalfMadeIsNotInTheWay(t *testing.T) {
	r := newRig(t, "")
	r.cleanup.Wait()
	snapshots := filepath.Join(r.config.Root, "containerd", "io.containerd.snapshotter.v1."+r.Snapshotter(), "snapshots")
	for id := range 10 {
		if err := os.MkdirAll(filepath.Join(snapshots, fmt.Sprint(id), "fs"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if status, log := r.run(t, pod("u1", "echo ok")); status.ExitCode != 0 || log != "ok" {
		t.Errorf("got %+v: %s", status, log)
	}
}

// TestAnImageOfManyLayersIsOpened: the kernel takes a page of options, in which the lowest layer must not make the paths of
// all others long.
func TestAnImageOfManyLayersIsOpened(t *testing.T) {
	state, root := t.TempDir(), filepath.Join(t.TempDir(), "io.containerd.snapshotter.v1.overlayfs")
	lowest := filepath.Join(root, "containers", "lowest", "none")
	dirs := []string{layout.State(state).Containerd(), lowest}
	var layers []string
	for i := range 400 {
		layers = append(layers, filepath.Join(root, "snapshots", fmt.Sprint(400-i), "fs"))
	}
	for _, dir := range append(dirs, layers...) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(layers[399], "first"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := openImage(state, []mount.Mount{{Type: "overlay", Source: "overlay", Options: []string{
		"upperdir=/u", "workdir=/w", "lowerdir=" + strings.Join(append(layers, lowest), ":"),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if _, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d/first", opened.Fd())); err != nil {
		t.Error(err)
	}
}
