package containerd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
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

// Remove is called before the start of a container has reached the shard, where it then hangs.
func TestRemoveCallsOffAStartThatHasNotBegun(t *testing.T) {
	needRoot(t)
	crun, err := exec.LookPath("crun")
	if err != nil {
		t.Skip("needs crun")
	}
	hangs := filepath.Join(t.TempDir(), "hangs")
	script := "#!/bin/sh\ncase \"$*\" in *\" run \"*hangs.main.0) exec sleep 1000 ;; esac\nexec " + crun + " \"$@\"\n"
	if err := os.WriteFile(hangs, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, hangs)
	compiling, release := make(chan struct{}), make(chan struct{})
	r.filters.compile = func(context.Context, ociRuntime, *specs.LinuxSeccomp) ([]byte, error) {
		close(compiling)
		<-release
		return nil, errors.New("not now")
	}
	p := pod("hangs", "true")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	c := r.container(t, p, "main")
	started, removed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := r.Start(context.Background(), c)
		started <- err
	}()
	<-compiling
	go func() { removed <- r.Remove(context.Background(), c.ID) }()
	close(release)
	if err := <-started; !errdefs.IsAborted(err) {
		t.Errorf("the start: %v", err)
	}
	if err := <-removed; err != nil {
		t.Errorf("its removal: %v", err)
	}
	if left := r.held(c.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
