package containerd

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
)

func TestSignals(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		ctx := context.Background()
		c := r.container(t, pod("u1", "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"), "main")
		r.start(t, c)
		for !strings.Contains(output(t, c.LogPath), "up") {
			time.Sleep(5 * time.Millisecond)
		}
		if err := r.Signal(ctx, c.ID, syscall.SIGTERM, false); err != nil {
			t.Fatal(err)
		}
		if status := r.wait(t, c.ID); status.ExitCode != 7 {
			t.Errorf("got %+v", status)
		}
		if err := r.Signal(ctx, c.ID, syscall.SIGTERM, false); !errors.Is(err, errdefs.ErrNotFound) {
			t.Errorf("one that has ended: %v", err)
		}
		if err := r.Signal(ctx, "nobody", syscall.SIGTERM, false); !errors.Is(err, errdefs.ErrNotFound) {
			t.Errorf("one that is not known: %v", err)
		}
	})
}
