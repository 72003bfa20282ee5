package containerd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/image"
)

func TestARootThatWasRemovedTakesImagesAgain(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "true"), "main")
	r.start(t, c)
	r.wait(t, c.ID)
	if err := r.Remove(context.Background(), c.ID); err != nil {
		t.Fatal(err)
	}
	epoch := r.Epoch()
	r.Close()
	// As after a kill, which leaves shards. They may keep layers mounted.
	left, err := openShards(context.Background(), r.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range left.all {
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(layout.Root(r.config.Root).Containerd()); err != nil {
		t.Fatal(err)
	}
	r.open(t)
	if r.Epoch() == epoch {
		t.Error("the state directory goes on with what it knows of other images")
	}
	if list, err := image.New(r.Client(), image.Options{Snapshotter: r.Snapshotter()}).List(context.Background()); err != nil || len(list) > 0 {
		t.Errorf("images: %v, %v", list, err)
	}
	r.image = r.importBusybox(t, "again")
	c = r.container(t, pod("u2", "echo here"), "main")
	r.start(t, c)
	if status := r.wait(t, c.ID); status.ExitCode != 0 || output(t, c.LogPath) != "here" {
		t.Errorf("got %+v", status)
	}
}

func TestContainersOfARootThatIsGoneAreNotTouched(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "sleep 1000"), "main")
	r.start(t, c)
	r.Close()
	id := filepath.Join(layout.Root(r.config.Root).Containerd(), "id")
	was, err := os.ReadFile(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(id); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), r.config); err == nil ||
		!strings.Contains(err.Error(), "jobd clean --root "+r.config.Root+" --state "+r.config.State) {
		t.Fatalf("got %v, want what to do", err)
	}
	if err := os.WriteFile(id, was, 0o600); err != nil { // it was not mounted yet
		t.Fatal(err)
	}
	r.open(t)
	list, err := r.Containers(context.Background())
	if err != nil || len(list) != 1 || list[0].ID != c.ID || !list[0].FinishedAt.IsZero() {
		t.Errorf("got %+v, %v", list, err)
	}
}
