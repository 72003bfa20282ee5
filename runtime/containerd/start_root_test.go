package containerd

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
)

func TestContainerEndsWithItsExitCodeAndLog(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		status, log := r.run(t, pod("u1", "echo hello; echo bye > /dev/termination-log; exit 3"))
		if status.State != runtime.Exited || status.ExitCode != 3 || log != "hello" || status.Message != "bye\n" {
			t.Errorf("got %+v, log %q", status, log)
		}
		if status.PodUID != "u1" || status.Name != "main" || status.StartedAt.IsZero() || status.FinishedAt.Before(status.StartedAt) {
			t.Errorf("got %+v", status)
		}
		if r.told[status.ID] != 1 {
			t.Errorf("told %d times", r.told[status.ID])
		}
	})
}

func TestStartIsTakenOnce(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		c := r.container(t, pod("u1", "echo once; sleep 100"), "main")
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				status, err := r.Start(context.Background(), c)
				if err != nil || status.State != runtime.Running {
					t.Errorf("got %+v, %v", status, err)
				}
			})
		}
		group.Wait()
		// It is killed once it has printed something: a shell may take a while until then.
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if log, err := os.ReadFile(c.LogPath); err == nil && bytes.Contains(log, []byte("once")) {
				break
			}
		}
		if err := r.Signal(context.Background(), c.ID, syscall.SIGKILL, false); err != nil {
			t.Fatal(err)
		}
		status := r.wait(t, c.ID)
		if status.ExitCode != 137 || status.Signal != 9 {
			t.Errorf("got %+v", status)
		}
		if again := r.start(t, c); again.State != runtime.Exited {
			t.Errorf("started again: %+v", again)
		}
		if log := output(t, c.LogPath); log != "once" {
			t.Errorf("log %q", log)
		}
	})
}

func TestFailedStartTellsWhy(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		p := pod("u1", "")
		p.Spec.Containers[0].Command = []string{"/no/such/command"}
		c := r.container(t, p, "main")
		status := r.start(t, c)
		if status.State != runtime.Exited || status.ExitCode != 128 || !strings.Contains(status.StartError, "/no/such/command") {
			t.Errorf("got %+v", status)
		}
		if told := r.wait(t, c.ID); told.StartError != status.StartError || r.told[c.ID] != 1 {
			t.Errorf("told %d times: %+v", r.told[c.ID], told)
		}
		if err := r.Remove(context.Background(), c.ID); err != nil {
			t.Fatal(err)
		}
		if left := r.held(c.ID); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestImageThatIsNotHere(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "true"), "main")
	c.Image.ChainID = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	if _, err := r.Start(context.Background(), c); !errors.Is(err, errdefs.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if list, _ := r.Containers(context.Background()); len(list) > 0 {
		t.Errorf("known: %+v", list)
	}
	c.Image = r.image
	r.start(t, c)
	if status := r.wait(t, c.ID); status.ExitCode != 0 {
		t.Errorf("then: %+v", status)
	}
}

func TestObjectWithoutStartIsStartedOnce(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "echo once"), "main")
	// As after a crash between the object and the start.
	if _, err := r.create(inNamespace(context.Background()), c, 0); err != nil {
		t.Fatal(err)
	}
	r.Close()
	r.open(t)
	if got := r.state(t, c.ID); got.State != runtime.Created || got.PodUID != "u1" {
		t.Fatalf("got %+v", got)
	}
	r.start(t, c)
	if status := r.wait(t, c.ID); status.ExitCode != 0 || output(t, c.LogPath) != "once" {
		t.Errorf("got %+v", status)
	}
}

// A spec is made for one OCI runtime: another one would not know the system call filter that it contains for crun.
func TestObjectWithoutStartIsStartedByItsOwnRuntime(t *testing.T) {
	if _, err := exec.LookPath("runc"); err != nil {
		t.Skip("needs runc")
	}
	r := newRig(t, "crun")
	p := pod("u1", "grep Seccomp: /proc/self/status")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	c := r.container(t, p, "main")
	if _, err := r.create(inNamespace(context.Background()), c, 0); err != nil {
		t.Fatal(err)
	}
	r.Close()
	r.config.OCIRuntime = "runc"
	r.open(t)
	r.start(t, c)
	if status := r.wait(t, c.ID); status.ExitCode != 0 || output(t, c.LogPath) != "Seccomp:\t2" {
		t.Errorf("got %+v, log %q", status, output(t, c.LogPath))
	}
}
