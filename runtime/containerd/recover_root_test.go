package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime"
)

func TestReopenFindsContainers(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		ctx := context.Background()
		ended := r.container(t, pod("u1", "exit 4"), "main")
		r.start(t, ended)
		r.wait(t, ended.ID)
		running := r.container(t, pod("u2", "while [ ! -e /stop ]; do sleep 0.05; done; exit 5"), "main")
		pid := r.start(t, running).PID
		meanwhile := r.container(t, pod("u3", "while [ ! -e /stop ]; do sleep 0.05; done; echo done; exit 6"), "main")
		meanwhilePID := r.start(t, meanwhile).PID

		r.Close()
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/root/stop", meanwhilePID), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		untilGone(t, meanwhilePID)
		r.open(t)
		r.untilEnded(t, meanwhile.ID)

		for id, want := range map[string]runtime.Status{
			ended.ID:     {State: runtime.Exited, ExitCode: 4},
			running.ID:   {State: runtime.Running},
			meanwhile.ID: {State: runtime.Exited, ExitCode: 6},
		} {
			got := r.state(t, id)
			if got.State != want.State || got.ExitCode != want.ExitCode || got.Name != "main" || got.PodUID == "" {
				t.Errorf("%s: got %+v, want %+v", id, got, want)
			}
		}
		if got := r.state(t, running.ID); got.PID != pid {
			t.Errorf("pid %d became %d", pid, got.PID)
		}
		if log := output(t, meanwhile.LogPath); log != "done" {
			t.Errorf("log %q", log)
		}
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/root/stop", pid), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if status := r.wait(t, running.ID); status.ExitCode != 5 {
			t.Errorf("got %+v", status)
		}
		for _, id := range []string{ended.ID, running.ID, meanwhile.ID} {
			if err := r.Remove(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{ended.ID, running.ID, meanwhile.ID} {
			if left := r.held(id); len(left) > 0 {
				t.Errorf("left of %s: %v", id, left)
			}
		}
	})
}

// A daemon that comes back in the middle of a start waits until the start is over, and then knows how it went.
func TestReopenDuringAStart(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		gate := filepath.Join(filepath.Dir(r.config.Root), "gate")
		c := r.container(t, pod("u", "while [ ! -e /stop ]; do sleep 0.05; done; exit 3"), "main", func(s *specs.Spec) {
			s.Hooks = &specs.Hooks{CreateRuntime: []specs.Hook{{
				Path: "/bin/sh", Args: []string{"sh", "-c", "touch " + gate + "-reached; until [ -e " + gate + " ]; do sleep 0.01; done"},
			}}}
		})
		ctx, die := context.WithCancel(context.Background())
		var starting sync.WaitGroup
		starting.Go(func() { _, _ = r.Start(ctx, c) })
		for late := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(gate + "-reached"); err == nil {
				break
			}
			if time.Now().After(late) {
				t.Fatal("the start does not come to its hook")
			}
		}
		die()
		starting.Wait()
		r.Close()

		r.open(t)
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		status := r.start(t, c)
		if status.State != runtime.Running || status.PID == 0 || status.StartedAt.IsZero() {
			t.Errorf("after its start: %+v", status)
		}
		if now := r.state(t, c.ID); now != status {
			t.Errorf("held is %+v", now)
		}
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/root/stop", status.PID), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if end := r.wait(t, c.ID); end.ExitCode != 3 {
			t.Errorf("got %+v", end)
		}
	})
}

func TestSweepRemovesWhatACrashLeft(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "sleep 1000"), "main")
	r.start(t, c)
	// As after a crash in the middle of Remove: the object is gone, nothing else is.
	ctx := inNamespace(context.Background())
	if err := r.server.commits.run(ctx, func(ctx context.Context) error {
		return errors.Join(r.server.containers().Delete(ctx, c.ID), r.server.snapshots().Remove(ctx, c.ID))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Client().LeasesService().Create(ctx, leases.WithID("of a pull")); err != nil {
		t.Fatal(err)
	}
	r.Close()
	stray := "/sys/fs/cgroup/memory" + r.config.CgroupParent + "/stray"
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		stray = "/sys/fs/cgroup" + r.config.CgroupParent + "/stray"
	}
	if err := os.MkdirAll(stray, 0o755); err != nil {
		t.Fatal(err)
	}
	probe := filepath.Join(r.config.State, probePrefix+"1", "lib")
	if err := os.MkdirAll(probe, 0o700); err != nil {
		t.Fatal(err)
	}
	view, older := filepath.Join(viewsDir(r.config.State), viewPrefix+"1"), filepath.Join(r.config.State, "containerd", "users-1")
	for _, place := range []string{view, older} {
		if err := errors.Join(os.MkdirAll(place, 0o700), syscall.Mount("tmpfs", place, "tmpfs", 0, "")); err != nil {
			t.Fatal(err)
		}
	}
	r.open(t)
	r.cleanup.Wait()
	if held, err := r.Client().LeasesService().List(ctx); err != nil || len(held) > 0 {
		t.Errorf("leases are left: %v, %v", held, err)
	}
	if left := r.held(c.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for what, path := range map[string]string{"the cgroup of nobody": stray, "the mount of a view": view, "that of an older jobd": older, "a probe": probe} {
		if _, err := os.Stat(path); err == nil {
			t.Error(what, "is left")
		}
	}
}

func TestKilledDaemon(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		r.Close()
		child := exec.Command(os.Args[0])
		child.Env = append(
			os.Environ(), "JOBD_TEST_CHILD="+r.config.Root, "JOBD_TEST_STATE="+r.config.State,
			"JOBD_TEST_RUNTIME="+r.config.OCIRuntime, "JOBD_TEST_SHIM="+r.config.ShimPath,
		)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		ready := make([]byte, 1)
		if _, err := out.Read(ready); err != nil {
			t.Fatal(err)
		}
		child.Process.Kill()
		child.Wait()
		r.open(t)
		for i := range childContainers {
			id := runtime.ContainerID(fmt.Sprintf("c%d", i), "main", 0)
			if i%2 == 0 {
				r.untilEnded(t, id)
			}
			got := r.state(t, id)
			want := runtime.Exited
			if i%2 == 1 {
				want = runtime.Running
			}
			if got.State != want || got.State == runtime.Exited && got.ExitCode != 10+i {
				t.Errorf("%s: got %+v", id, got)
			}
			if i%2 == 1 {
				if err := r.Signal(context.Background(), id, syscall.SIGKILL, true); err != nil {
					t.Fatal(err)
				}
				if status := r.wait(t, id); status.ExitCode != 137 {
					t.Errorf("%s: got %+v", id, status)
				}
			}
		}
	})
}

const childContainers = 6

// runChild runs a daemon that starts containers and is then killed.
func runChild(root string) {
	t := &childT{}
	r := &rig{}
	path := os.Getenv("JOBD_TEST_SHIM")
	shim = sync.OnceValues(func() (string, error) { return path, nil })
	r.configure(t, root, os.Getenv("JOBD_TEST_STATE"), os.Getenv("JOBD_TEST_RUNTIME"))
	r.open(t)
	r.image = r.importBusybox(t, "busybox")
	var group sync.WaitGroup
	for i := range childContainers {
		group.Go(func() {
			script := fmt.Sprintf("sleep 0.3; exit %d", 10+i)
			if i%2 == 1 {
				script = "sleep 1000"
			}
			r.start(t, r.container(t, pod(fmt.Sprintf("c%d", i), script), "main"))
		})
	}
	group.Wait()
	os.Stdout.Write([]byte("."))
	select {}
}

// childT implements what a rig needs of testing.TB.
type childT struct{ testing.TB }

func (*childT) Helper()                   {}
func (*childT) Logf(f string, a ...any)   { fmt.Fprintf(os.Stderr, f+"\n", a...) }
func (*childT) Fatal(a ...any)            { fmt.Fprintln(os.Stderr, a...); os.Exit(1) }
func (*childT) Fatalf(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...); os.Exit(1) }
func (*childT) Error(a ...any)            { fmt.Fprintln(os.Stderr, a...) }
