package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
