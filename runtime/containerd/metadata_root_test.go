package containerd

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jobd/jobd/runtime/image"
)

func TestNothingIsHeldOfAnotherLifeOfTheState(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "sleep 1000"), "main")
	r.start(t, c)
	r.importBusybox(t, "another") // this copies the database, with the container in it
	epoch := r.Epoch()
	r.Close()
	// As after a reboot: no process, no state.
	if err := Clean(context.Background(), r.config.Root, r.config.State); err != nil {
		t.Fatal(err)
	}
	r.open(t)
	if r.Epoch() == epoch {
		t.Error("nobody can tell that containers were lost")
	}
	if list, err := r.Containers(context.Background()); err != nil || len(list) > 0 {
		t.Errorf("got %+v, %v", list, err)
	}
	if left := r.held(c.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	next := r.container(t, pod("u2", "echo next"), "main")
	r.start(t, next)
	if status := r.wait(t, next.ID); status.ExitCode != 0 {
		t.Errorf("with the image of before: %+v", status)
	}
}

func TestAnImageOutlivesAKillBeforeItsCopyAndThenAPowerCut(t *testing.T) {
	r := newRig(t, "")
	saved := r.server.database.saved
	before, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	r.image = r.importBusybox(t, "late")
	r.Close()
	if err := os.WriteFile(saved, before, 0o600); err != nil { // as if killed before the image was copied
		t.Fatal(err)
	}
	r.open(t)
	r.Close()
	if err := Clean(context.Background(), r.config.Root, r.config.State); err != nil {
		t.Fatal(err)
	}
	r.open(t)
	c := r.container(t, pod("u1", "echo here"), "main")
	r.start(t, c)
	if status := r.wait(t, c.ID); status.ExitCode != 0 || output(t, c.LogPath) != "here" {
		t.Errorf("got %+v", status)
	}
	list, err := image.New(r.Client(), image.Options{Snapshotter: r.Snapshotter()}).List(context.Background())
	if err != nil || len(list) != 2 {
		t.Errorf("images: %v, %v", list, err)
	}
}

func TestAnEarlierLifeOfTheStateLeavesNothingInIt(t *testing.T) {
	r := newRig(t, "")
	r.Close()
	if err := os.Remove(filepath.Join(r.config.State, "epoch")); err != nil { // as if it were of another boot
		t.Fatal(err)
	}
	r.open(t)
	for _, pattern := range []string{"meta-*", "layers-*"} {
		if found, _ := filepath.Glob(filepath.Join(r.config.State, "containerd", pattern)); len(found) != 1 {
			t.Errorf("got %v", found)
		}
	}
}
