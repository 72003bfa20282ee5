package image

import (
	"testing"

	"github.com/containerd/errdefs"
)

// A layer that is found while an image is unpacked stays until that has ended, though whoever wrote it has given up.
func TestAFoundLayerStays(t *testing.T) {
	i := newImages(t, Options{Snapshotter: "overlayfs"})
	s := i.client.SnapshotService(i.options.Snapshotter)
	failed, giveUp, err := i.leased(inNamespace(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range []string{"one", "two"} {
		if _, err := s.Prepare(failed, "writing-"+layer, ""); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(failed, layer, "writing-"+layer); err != nil {
			t.Fatal(err)
		}
	}
	unpacks, release, err := i.leased(inNamespace(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stat(unpacks, "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prepare(unpacks, "again-two", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(unpacks, "two", "again-two"); !errdefs.IsAlreadyExists(err) {
		t.Errorf("what another one has committed: %v", err)
	}
	giveUp(true)
	for _, layer := range []string{"one", "two"} {
		if _, err := s.Prepare(unpacks, "on-"+layer, layer); err != nil {
			t.Errorf("layer %s: %v", layer, err)
		}
	}
	release(true)
	if _, err := s.Stat(inNamespace(t), "one"); !errdefs.IsNotFound(err) {
		t.Errorf("it stays for ever: %v", err)
	}
}
