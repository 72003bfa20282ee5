package containerd

import (
	"context"
	"os"
	"testing"
)

func TestRemoveLeavesNothing(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		ctx := context.Background()
		ended := r.container(t, pod("u1", "echo x > /file"), "main")
		r.start(t, ended)
		r.wait(t, ended.ID)
		running := r.container(t, pod("u2", "sleep 1000 & sleep 1000"), "main")
		r.start(t, running)
		for _, id := range []string{ended.ID, running.ID, "nobody"} {
			if err := r.Remove(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		if list, _ := r.Containers(ctx); len(list) > 0 {
			t.Errorf("still known: %+v", list)
		}
		for _, id := range []string{ended.ID, running.ID} {
			if left := r.held(id); len(left) > 0 {
				t.Errorf("left of %s: %v", id, left)
			}
		}
		if _, err := os.Stat(ended.LogPath); err != nil {
			t.Errorf("the log: %v", err)
		}
	})
}
