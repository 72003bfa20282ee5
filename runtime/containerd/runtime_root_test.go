package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/image"
)

func ptr[T any](v T) *T { return &v }

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
		// It is killed once it has said something: a shell may take its time until then.
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

func TestNothingIsHeldOfAnotherLifeOfTheState(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "sleep 1000"), "main")
	r.start(t, c)
	r.importBusybox(t, "another") // with it, containers are in the copy of the database
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
	if err := os.WriteFile(saved, before, 0o600); err != nil { // killed before that was copied
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

func TestAnEarlierLifeOfTheStateLeavesNothingInIt(t *testing.T) {
	r := newRig(t, "")
	r.Close()
	if err := os.Remove(filepath.Join(r.config.State, "epoch")); err != nil { // it is of another boot
		t.Fatal(err)
	}
	r.open(t)
	for _, pattern := range []string{"meta-*", "layers-*"} {
		if found, _ := filepath.Glob(filepath.Join(r.config.State, "containerd", pattern)); len(found) != 1 {
			t.Errorf("got %v", found)
		}
	}
}

func TestObjectWithoutStartIsStartedOnce(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "echo once"), "main")
	// A crash between the object and the start.
	if _, _, err := r.create(inNamespace(context.Background()), c); err != nil {
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

func TestShardThatDies(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "sleep 1000"), "main")
	r.start(t, c)
	if err := syscall.Kill(r.shards.at(r.shards.of("u1")).PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next := r.container(t, pod("u1", "echo next"), "main")
	next.ID = runtime.ContainerID("u1", "next", 0)
	next.Spec.Linux.CgroupsPath = r.config.CgroupParent + "/" + next.ID
	r.start(t, next)
	if status := r.wait(t, next.ID); status.ExitCode != 0 {
		t.Errorf("a start while the shard was dead: %+v", status)
	}
	// What the dead one held is kept where the kernel allows that, and is known to be lost elsewhere.
	if r.state(t, c.ID).State == runtime.Running {
		if err := r.Signal(context.Background(), c.ID, syscall.SIGKILL, true); err != nil {
			t.Fatal(err)
		}
		if status := r.wait(t, c.ID); status.ExitCode != 137 {
			t.Errorf("got %+v", status)
		}
	} else if status := r.wait(t, c.ID); status.State != runtime.Lost {
		t.Errorf("got %+v", status)
	}
}

func TestSweepRemovesWhatACrashLeft(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "sleep 1000"), "main")
	r.start(t, c)
	// A crash in the middle of Remove: the object is gone, nothing else is.
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
	trial := filepath.Join(r.config.State, trialPrefix+"1", "lib")
	if err := os.MkdirAll(trial, 0o700); err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(r.config.State, "containerd", userFilesDir+"1")
	if err := errors.Join(os.Mkdir(users, 0o700), syscall.Mount("tmpfs", users, "tmpfs", 0, "")); err != nil {
		t.Fatal(err)
	}
	r.open(t)
	r.cleanup.Wait()
	if held, err := r.Client().LeasesService().List(ctx); err != nil || len(held) > 0 {
		t.Errorf("leases are left: %v, %v", held, err)
	}
	if left := r.held(c.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for what, path := range map[string]string{"the cgroup of nobody": stray, "the mount of an image's users": users, "a trial": trial} {
		if _, err := os.Stat(path); err == nil {
			t.Error(what, "is left")
		}
	}
}

func TestLimits(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		p := pod("u1", "sleep 1000")
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}
		c := r.container(t, p, "main")
		r.start(t, c)
		files := map[string]string{
			"cpu/ID/cpu.shares": "512", "cpu/ID/cpu.cfs_quota_us": "50000", "memory/ID/memory.limit_in_bytes": "33554432",
		}
		if r.host.CgroupV2 {
			files = map[string]string{"ID/cpu.max": "50000 100000", "ID/memory.max": "33554432", "ID/memory.oom.group": "1"}
		}
		for file, want := range files {
			path := "/sys/fs/cgroup/" + strings.Replace(file, "ID", strings.TrimPrefix(r.config.CgroupParent, "/")+"/"+c.ID, 1)
			got, err := os.ReadFile(path)
			if err != nil || strings.TrimSpace(string(got)) != want {
				t.Errorf("%s: got %q, %v, want %s", file, got, err, want)
			}
		}
	})
}

func TestOutOfMemory(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		p := pod("u1", "x=0123456789abcdef; while :; do x=$x$x; done")
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")}
		status, _ := r.run(t, p)
		if !status.OOMKilled || status.ExitCode != 137 {
			t.Errorf("got %+v", status)
		}
	})
}

func TestVolumes(t *testing.T) {
	for _, medium := range []corev1.StorageMedium{corev1.StorageMediumDefault, corev1.StorageMediumMemory} {
		t.Run("emptyDir is shared between containers, medium "+string(medium), func(t *testing.T) {
			ociRuntimes(t, func(t *testing.T, r *rig) {
				p := pod("u1", "cat /data/file; touch /data/seen")
				p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}}
				writer := corev1.Container{Name: "writer", Command: []string{"sh", "-c", "echo shared > /deep/er/file; while [ ! -e /deep/er/seen ]; do sleep 0.02; done; grep ' /deep/er ' /proc/mounts"}}
				writer.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/deep/er"}}
				p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
				p.Spec.Containers = append(p.Spec.Containers, writer)
				w := r.container(t, p, "writer")
				r.start(t, w)
				for {
					on := r.config.Root
					if medium == corev1.StorageMediumMemory {
						on = r.config.State
					}
					if _, err := os.Stat(on + "/pods/u1/volumes/emptydir/data/file"); err == nil {
						break
					}
					time.Sleep(5 * time.Millisecond)
				}
				status, log := r.run(t, p)
				if status.ExitCode != 0 || log != "shared" {
					t.Errorf("got %+v, log %q", status, log)
				}
				if status := r.wait(t, w.ID); status.ExitCode != 0 || strings.Contains(output(t, w.LogPath), "tmpfs") != (medium != "") {
					t.Errorf("got %+v, log %q", status, output(t, w.LogPath))
				}
				if err := r.volumes.TearDown("u1"); err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("hostPath, read-only and with subPath", func(t *testing.T) {
		ociRuntimes(t, func(t *testing.T, r *rig) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "in"), []byte("host\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			p := pod("u1", "cat /ro/in; touch /ro/x 2>/dev/null || echo read-only; echo out > /rw/out; echo sub > /sub/out")
			p.Spec.Volumes = []corev1.Volume{{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
				{Name: "h", MountPath: "/ro", ReadOnly: true}, {Name: "h", MountPath: "/rw"}, {Name: "h", MountPath: "/sub", SubPath: "a/b"},
			}
			status, log := r.run(t, p)
			if status.ExitCode != 0 || log != "host\nread-only" {
				t.Errorf("got %+v, log %q", status, log)
			}
			for file, want := range map[string]string{"out": "out\n", "a/b/out": "sub\n"} {
				if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", file, got, err)
				}
			}
			if err := r.volumes.TearDown("u1"); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "a/b/out")); err != nil {
				t.Error("the host's own file went with the pod")
			}
		})
	})
}

func TestSecurityOfAContainer(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		t.Run("a read-only root", func(t *testing.T) {
			p := pod("u1", "touch /file 2>/dev/null || echo refused; echo m > /dev/termination-log")
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr(true)}
			if status, log := r.run(t, p); log != "refused" || status.Message != "m\n" {
				t.Errorf("got %+v, log %q", status, log)
			}
		})
		t.Run("a user by number", func(t *testing.T) {
			p := pod("u2", "id -u; id -g; touch /file 2>/dev/null || echo refused")
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr(int64(1234)), RunAsGroup: ptr(int64(4321))}
			if _, log := r.run(t, p); log != "1234\n4321\nrefused" {
				t.Errorf("log %q", log)
			}
		})
		t.Run("what it sees of itself", func(t *testing.T) {
			p := pod("u3", `hostname; cat /etc/hostname; grep -c . /etc/resolv.conf >/dev/null; grep -c pod-u3 /etc/hosts; ip -o link | grep -c lo; sh -c 'echo $PPID'; grep CapEff /proc/self/status; ls /sys/fs/cgroup | head -n 1 | grep -c .; cat /proc/keys 2>/dev/null | wc -c`)
			status, log := r.run(t, p)
			lines := strings.Split(log, "\n")
			if status.ExitCode != 0 || len(lines) != 8 {
				t.Fatalf("got %+v, log %q", status, log)
			}
			if want := []string{"pod-u3", "pod-u3", "1", "1", "1", "CapEff:\t00000000a80425fb", "1", "0"}; strings.Join(lines, "|") != strings.Join(want, "|") {
				t.Errorf("got %q, want %q", lines, want)
			}
		})
		t.Run("the default seccomp profile", func(t *testing.T) {
			p := pod("u6", "grep Seccomp: /proc/self/status; unshare -U true 2>/dev/null || echo refused")
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
			if _, log := r.run(t, p); log != "Seccomp:\t2\nrefused" {
				t.Errorf("log %q", log)
			}
			filters, _ := os.ReadDir(filepath.Join(r.config.State, "seccomp"))
			if crun := r.filters != nil; crun != (len(filters) == 1) {
				t.Errorf("%d filters were compiled and kept", len(filters))
			}
		})
		t.Run("a seccomp profile that even its program cannot run under", func(t *testing.T) {
			c := r.container(t, pod("u7", "true"), "main")
			c.Spec.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: specs.ActKillProcess}
			r.start(t, c)
			if status := r.wait(t, c.ID); status.ExitCode == 0 {
				t.Errorf("got %+v", status)
			}
		})
		t.Run("a privileged one", func(t *testing.T) {
			p := pod("u4", "mount -t tmpfs none /mnt && ls /dev | grep -c kmsg")
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr(true)}
			if status, log := r.run(t, p, func(s *specs.Spec) { s.Process.Args[2] = "mkdir /mnt; " + s.Process.Args[2] }); status.ExitCode != 0 {
				t.Errorf("got %+v, log %q", status, log)
			}
		})
		t.Run("in the host's network and with its processes", func(t *testing.T) {
			p := pod("u5", "readlink /proc/self/ns/net; readlink /proc/self/ns/pid; ls /sys >/dev/null")
			p.Spec.HostNetwork, p.Spec.HostPID = true, true
			status, log := r.run(t, p)
			network, _ := os.Readlink("/proc/self/ns/net")
			pids, _ := os.Readlink("/proc/self/ns/pid")
			if status.ExitCode != 0 || log != network+"\n"+pids {
				t.Errorf("got %+v, log %q", status, log)
			}
		})
	})
}

func TestUserOfTheImageByName(t *testing.T) {
	r := newRig(t, "")
	// The layers of an image with a file for its users.
	p := pod("u1", "id -u; id -g")
	c := r.container(t, p, "main")
	r.passwd.images = map[string]userFiles{c.Image.ChainID: {
		passwd: []byte("app:x:77:78::/:/bin/sh\n"), group: []byte("app:x:78:\n"),
	}}
	c.Spec.Process.User.Username = "app"
	r.start(t, c)
	if r.wait(t, c.ID); output(t, c.LogPath) != "77\n78" {
		t.Errorf("log %q", output(t, c.LogPath))
	}
}

func TestTwoRuntimesDoNotMeet(t *testing.T) {
	a, b := newRig(t, "crun"), newRig(t, "crun")
	ca, cb := a.container(t, pod("u1", "sleep 1000"), "main"), b.container(t, pod("u1", "sleep 1000"), "main")
	a.start(t, ca)
	b.start(t, cb)
	a.Close()
	if err := Clean(context.Background(), a.config.Root, a.config.State); err != nil {
		t.Fatal(err)
	}
	a.Runtime = nil
	if got := b.state(t, cb.ID); got.State != runtime.Running || syscall.Kill(got.PID, 0) != nil {
		t.Errorf("got %+v", got)
	}
	if left := leftOnHost(filepath.Base(a.config.State), a.config.CgroupParent); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if list, _ := b.Containers(context.Background()); len(list) != 1 {
		t.Errorf("got %+v", list)
	}
}

func TestCtrTellsTheTruth(t *testing.T) {
	ctr, err := exec.LookPath("ctr")
	if err != nil {
		t.Skip("needs ctr (apt install containerd)")
	}
	r := newRig(t, "")
	running, ended := r.container(t, pod("u1", "sleep 1000"), "main"), r.container(t, pod("u2", "exit 3"), "main")
	r.start(t, running)
	r.start(t, ended)
	r.wait(t, ended.ID)
	ask := func(args ...string) string {
		out, err := exec.Command(ctr, append([]string{"-a", r.config.State + "/containerd.sock", "-n", Namespace}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	tasks := ask("tasks", "ls")
	for id, state := range map[string]string{running.ID: "RUNNING", ended.ID: "STOPPED"} {
		if !containsLine(tasks, id, state) || !containsLine(ask("containers", "ls"), id, r.image.Name) {
			t.Errorf("%s: got\n%s", id, tasks)
		}
	}
	if out := ask("images", "ls"); !containsLine(out, r.image.Name) {
		t.Errorf("got\n%s", out)
	}
	ask("tasks", "kill", "-s", "KILL", running.ID)
	if status := r.wait(t, running.ID); status.ExitCode != 137 {
		t.Errorf("got %+v", status)
	}
}

func containsLine(text string, words ...string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}

func TestSocketIsRootsOnly(t *testing.T) {
	r := newRig(t, "")
	info, err := os.Stat(r.config.State + "/containerd.sock")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	conn, err := net.Dial("unix", r.config.State+"/containerd.sock")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestCloseRightAfterOpen(t *testing.T) {
	r := newRig(t, "")
	for range 50 {
		r.Close()
		r.open(t)
	}
}

func TestMissingOCIRuntimeNamesThePackage(t *testing.T) {
	needRoot(t)
	r := &rig{}
	r.configure(t, t.TempDir(), t.TempDir(), "no-such-runtime")
	_, err := Open(context.Background(), r.config)
	if err == nil || !strings.Contains(err.Error(), "apt install crun") {
		t.Errorf("got %v", err)
	}
	if err := Clean(context.Background(), r.config.Root, r.config.State); err != nil {
		t.Error(err)
	}
}

// What has failed in a moment of the host's, one that was too busy for instance, is tried again at the next start.
func TestAnOCIRuntimeThatFailedIsTriedAgain(t *testing.T) {
	needRoot(t)
	path, err := exec.LookPath("crun")
	if err != nil {
		t.Skip("needs crun")
	}
	r, dir := &rig{}, t.TempDir()
	script, broken := filepath.Join(dir, "crun"), filepath.Join(dir, "broken")
	for file, content := range map[string]string{
		script: fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] || [ ! -e %s ] || exit 1\nexec %s \"$@\"\n", broken, path),
		broken: "",
	} {
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.configure(t, filepath.Join(dir, "root"), filepath.Join(dir, "state"), script)
	t.Cleanup(func() {
		if err := Clean(context.Background(), r.config.Root, r.config.State); err != nil {
			t.Error(err)
		}
	})
	if _, err := Open(context.Background(), r.config); err == nil || !strings.Contains(err.Error(), "does not work here") {
		t.Fatalf("with one that fails: %v", err)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	r.open(t)
	r.Close()
}

func TestKilledDaemon(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		r.Close()
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "JOBD_TEST_CHILD="+r.config.Root, "JOBD_TEST_STATE="+r.config.State, "JOBD_TEST_RUNTIME="+r.config.OCIRuntime, "JOBD_TEST_SHIM="+r.config.ShimPath)
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

// runChild is a daemon that starts containers and is then killed.
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

// childT is what a rig needs of a test.
type childT struct{ testing.TB }

func (*childT) Helper()                   {}
func (*childT) Logf(f string, a ...any)   { fmt.Fprintf(os.Stderr, f+"\n", a...) }
func (*childT) Fatal(a ...any)            { fmt.Fprintln(os.Stderr, a...); os.Exit(1) }
func (*childT) Fatalf(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...); os.Exit(1) }
func (*childT) Error(a ...any)            { fmt.Fprintln(os.Stderr, a...) }
