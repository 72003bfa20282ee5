package containerd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/volume"
	"github.com/jobd/jobd/testdata/images"
)

// shim builds the shards' binary once.
var shim = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "jobd-shim-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "jobd-shim")
	build := exec.Command("go", "build", "-o", path, "github.com/jobd/jobd/cmd/jobd-shim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in a release: it is executed in containers
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build jobd-shim: %w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	if child := os.Getenv("JOBD_TEST_CHILD"); child != "" {
		runChild(child)
		return
	}
	code := m.Run()
	if path, err := shim(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// rig is a runtime in directories of its own with an image of busybox, and what a daemon would provide around it.
type rig struct {
	config  Config
	volumes *volume.Volumes
	host    oci.Host
	*Runtime
	image runtime.Image

	mu    sync.Mutex
	exits map[string]runtime.Status
	told  map[string]int
	wake  chan struct{}
}

// ociRuntimes runs a test with each OCI runtime.
func ociRuntimes(t *testing.T, test func(t *testing.T, r *rig)) {
	for _, name := range []string{"crun", "runc"} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				t.Skip("needs " + name)
			}
			test(t, newRig(t, name))
		})
	}
}

func newRig(t testing.TB, ociRuntime string) *rig {
	t.Helper()
	return newRigIn(t, os.TempDir(), ociRuntime)
}

// newRigIn makes a rig whose root is below a directory.
func newRigIn(t testing.TB, parent, ociRuntime string) *rig {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp(parent, "jobd-")
	if err != nil {
		t.Fatal(err)
	}
	// STATE is on a tmpfs, as /run is, and the root is on a disk.
	state := filepath.Join("/dev/shm", filepath.Base(dir))
	r := &rig{}
	t.Cleanup(func() {
		if r.Runtime != nil {
			r.Close()
		}
		if err := Clean(context.Background(), r.config.Root, r.config.State); err != nil {
			t.Error(err)
		}
		if left := leftOnHost(filepath.Base(dir), r.config.CgroupParent); len(left) > 0 {
			t.Errorf("left on the host after Clean:\n%s", strings.Join(left, "\n"))
		}
		os.RemoveAll(dir)
		if _, err := os.Stat(state); err == nil {
			t.Error("Clean has left the state directory")
		}
	})
	r.configure(t, filepath.Join(dir, "root"), state, ociRuntime)
	r.open(t)
	r.image = r.importBusybox(t, "busybox")
	return r
}

func needRoot(t testing.TB) {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	if _, err := exec.LookPath("busybox"); err != nil {
		t.Skip("needs busybox-static")
	}
}

func (r *rig) configure(t testing.TB, root, state, ociRuntime string) {
	t.Helper()
	path, err := shim()
	if err != nil {
		t.Fatal(err)
	}
	r.config = Config{
		Root: root, State: state,
		OCIRuntime: ociRuntime, ShimPath: path, Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	r.config.CgroupParent = runtime.CgroupParent(r.config.Root)
	if r.volumes, err = volume.New(r.config.Root, r.config.State, volume.Node{}); err != nil {
		t.Fatal(err)
	}
	if r.host, err = oci.ReadHost(); err != nil {
		t.Fatal(err)
	}
	r.exits, r.told, r.wake = map[string]runtime.Status{}, map[string]int{}, make(chan struct{})
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

func (r *rig) open(t testing.TB) {
	t.Helper()
	var err error
	if r.Runtime, err = Open(context.Background(), r.config); err != nil {
		t.Fatal(err)
	}
	r.OnExit(func(s runtime.Status) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.exits[s.ID] = s
		r.told[s.ID]++
		close(r.wake)
		r.wake = make(chan struct{})
	})
}

func (r *rig) importBusybox(t testing.TB, name string) runtime.Image {
	t.Helper()
	busybox, err := images.Busybox(name)
	if err != nil {
		t.Fatal(err)
	}
	return r.importImage(t, busybox)
}

func (r *rig) importImage(t testing.TB, img images.Image) runtime.Image {
	t.Helper()
	list, err := image.New(r.Client(), image.Options{Snapshotter: r.Snapshotter()}).Import(context.Background(), img.Docker(), "")
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// pod returns a pod whose container "main" runs a script.
func pod(uid, script string) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Command: []string{"sh", "-c", script}, TerminationMessagePath: "/dev/termination-log",
	}}}}
	p.Name, p.Namespace, p.UID = "pod-"+uid, "default", types.UID(uid)
	return p
}

// container prepares what a daemon would for the first start of a pod's container.
func (r *rig) container(t testing.TB, p *corev1.Pod, name string, change ...func(*specs.Spec)) runtime.Container {
	t.Helper()
	c, err := r.prepare(p, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(c.Spec)
	}
	return c
}

func (r *rig) prepare(p *corev1.Pod, name string) (runtime.Container, error) {
	mounts, err := r.volumes.SetUp(context.Background(), p, "")
	if err != nil {
		return runtime.Container{}, err
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if c.Name != name {
			continue
		}
		mine, err := r.volumes.Within(p, c, mounts[name])
		if err != nil {
			return runtime.Container{}, err
		}
		files, err := r.volumes.Files(p, c, 0, volume.FilesOptions{NodeName: "node"})
		if err != nil {
			return runtime.Container{}, err
		}
		declared, err := r.volumes.Declared(context.Background(), p, c, 0, r.image.Config.Volumes, mine, files)
		if err != nil {
			return runtime.Container{}, err
		}
		id := runtime.ContainerID(string(p.UID), name, 0)
		spec, err := oci.Spec(oci.Input{
			Pod: p, Container: c, Image: r.image.Config, CgroupPath: r.config.CgroupParent + "/" + id,
			Mounts: mine, Declared: declared, Files: files, NodeName: "node", Host: r.host,
		})
		if err != nil {
			return runtime.Container{}, err
		}
		log := filepath.Join(r.config.Root, "logs", string(p.UID), name, "0.log")
		if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
			return runtime.Container{}, err
		}
		return runtime.Container{ID: id, PodUID: string(p.UID), Name: name, Image: r.image, Spec: spec, Alone: true, LogPath: log}, nil
	}
	return runtime.Container{}, fmt.Errorf("pod has no container %s", name)
}

func (r *rig) start(t testing.TB, c runtime.Container) runtime.Status {
	t.Helper()
	status, err := r.Start(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// wait waits until the end of a container is reported.
func (r *rig) wait(t testing.TB, id string) runtime.Status {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		r.mu.Lock()
		status, ok := r.exits[id]
		wake := r.wake
		r.mu.Unlock()
		if ok {
			return status
		}
		select {
		case <-wake:
		case <-deadline:
			t.Fatalf("container %s does not end", id)
		}
	}
}

// untilEnded waits until a container is known to have ended.
func (r *rig) untilEnded(t testing.TB, id string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); r.state(t, id).State == runtime.Running; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("container %s does not end", id)
		}
	}
}

// untilGone waits until a process no longer exists.
func untilGone(t testing.TB, pid int) {
	t.Helper()
	for late := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("process %d does not end", pid)
		}
	}
}

// run starts a script in a pod of its own and returns how it ended and what it wrote.
func (r *rig) run(t testing.TB, p *corev1.Pod, change ...func(*specs.Spec)) (runtime.Status, string) {
	t.Helper()
	c := r.container(t, p, "main", change...)
	r.start(t, c)
	status := r.wait(t, c.ID)
	return status, output(t, c.LogPath)
}

// output returns the text of a log in the CRI format.
func output(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(content)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) != 4 {
			t.Fatalf("log line %q", line)
		}
		out = append(out, fields[3])
	}
	return strings.Join(out, "\n")
}

func (r *rig) state(t testing.TB, id string) runtime.Status {
	t.Helper()
	list, err := r.Containers(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.ID == id {
			return s
		}
	}
	return runtime.Status{}
}

// leftOnHost lists the mounts, cgroups and processes that belong to a rig.
func leftOnHost(dir, cgroup string) []string {
	var left []string
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup" + cgroup, "/sys/fs/cgroup/*" + cgroup} {
		dirs, _ := filepath.Glob(pattern)
		for _, d := range dirs {
			left = append(left, "cgroup "+d)
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		if content, err := os.ReadFile(p); err == nil && strings.Contains(string(content), dir) && filepath.Base(filepath.Dir(p)) != fmt.Sprint(os.Getpid()) {
			left = append(left, "process "+p+": "+strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return left
}

// held lists what one container has on the host.
func (r *rig) held(id string) []string {
	r.cleanup.Wait()
	var left []string
	for _, pattern := range []string{"/sys/fs/cgroup" + r.config.CgroupParent + "/" + id, "/sys/fs/cgroup/*" + r.config.CgroupParent + "/" + id} {
		dirs, _ := filepath.Glob(pattern)
		left = append(left, dirs...)
	}
	for _, dir := range []string{r.config.State, filepath.Join(r.config.Root, "containerd")} {
		filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil && strings.Contains(filepath.Base(path), id) {
				left = append(left, path)
			}
			return nil
		})
	}
	snapshots, _ := os.ReadDir(filepath.Join(r.config.Root, "containerd", "io.containerd.snapshotter.v1.overlayfs", "snapshots"))
	if len(snapshots) > 1 { // one is the image's own layer
		for _, s := range snapshots {
			left = append(left, "snapshot "+s.Name())
		}
	}
	return left
}

func ptr[T any](v T) *T { return &v }
