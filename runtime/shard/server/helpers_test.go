package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// neverAdopt in the environment is Options.NeverAdopt.
const neverAdopt = "JOBD_TEST_NEVER_ADOPT"

// The test binary is the shard too: shard.Open starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == NestFlag {
		fmt.Fprintln(os.Stderr, Nest(os.Args[2]))
		os.Exit(1)
	}
	if len(os.Args) < 2 || os.Args[1] != "--dir" {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // else each shard takes a second to end
		os.Exit(m.Run())
	}
	dir := flag.String("dir", "", "")
	ready := flag.Int("ready-fd", -1, "")
	flag.Parse()
	o := Options{Build: "test", Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), NeverAdopt: os.Getenv(neverAdopt) != ""}
	if err := Run(*dir, "", os.NewFile(uintptr(*ready), "ready"), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// bed is a shard with all it needs, in a place of its own.
type bed struct {
	t       testing.TB
	runtime string
	dir     string // not the test's own, whose path is too long for a socket
	cgroup  string
	image   string
	exits   chan protocol.Container
	options shard.Options
	*shard.Shard
}

// eachRuntime runs a test with crun and with runc.
func eachRuntime(t *testing.T, test func(t *testing.T, b *bed)) {
	for _, name := range []string{"crun", "runc"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newBed(t, name))
		})
	}
}

func newBed(t testing.TB, runtime string) *bed {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	path, err := exec.LookPath(runtime)
	if err != nil {
		t.Skipf("needs %s", runtime)
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox")
	}
	dir, err := os.MkdirTemp("", "shard")
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{
		t: t, runtime: path, dir: dir, cgroup: "/jobd-test-" + strings.ToLower(rand.Text()[:8]),
		image: filepath.Join(dir, "image"), exits: make(chan protocol.Container, 1000),
	}
	for _, d := range []string{"bin", "proc", "dev", "sys", "tmp"} {
		must(t, os.MkdirAll(filepath.Join(b.image, d), 0o755))
	}
	content, err := os.ReadFile(busybox)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(b.image, "bin/busybox"), content, 0o755))
	for _, name := range []string{
		"sh", "true", "false", "echo", "sleep", "cat", "kill", "head", "tail", "tr", "dd", "id", "seq", "yes", "setsid", "stty",
		"grep",
	} {
		must(t, os.Symlink("busybox", filepath.Join(b.image, "bin", name)))
	}
	self, err := os.Executable()
	must(t, err)
	b.options = shard.Options{Dir: filepath.Join(dir, "s"), Binary: self, Cgroup: b.cgroup + "/shard", OnExit: func(c protocol.Container) { b.exits <- c }}
	b.open()
	t.Cleanup(b.tearDown)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bed) open() {
	b.t.Helper()
	s, err := shard.Open(b.context(), b.options)
	if err != nil {
		output, _ := os.ReadFile(filepath.Join(b.options.Dir, "shard.log"))
		b.t.Fatalf("%v\n%s", err, output)
	}
	b.Shard = s
}

// context bounds a test.
func (b *bed) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	b.t.Cleanup(cancel)
	return ctx
}

// tearDown deletes everything and checks whether anything is left.
func (b *bed) tearDown() {
	containers, err := b.List(b.context())
	if err != nil {
		b.t.Error(err)
	}
	for _, c := range containers {
		if _, err := b.Delete(b.context(), c.ID); err != nil {
			b.t.Error(err)
		}
	}
	if err := b.Shutdown(b.context()); err != nil {
		b.t.Error(err)
	}
	b.nothingIsLeft()
	b.removeCgroups()
	if b.t.Failed() {
		output, _ := os.ReadFile(filepath.Join(b.options.Dir, "shard.log"))
		b.t.Logf("shard.log:\n%s", output)
	}
	must(b.t, os.RemoveAll(b.dir))
}

// nothingIsLeft looks for files, mounts and cgroups of deleted containers.
func (b *bed) nothingIsLeft() {
	b.t.Helper()
	for _, d := range []string{"containers", "runtime"} {
		entries, _ := os.ReadDir(filepath.Join(b.options.Dir, d))
		for _, e := range entries {
			b.t.Errorf("%s/%s is left", d, e.Name())
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(b.t, err)
	if strings.Contains(string(mounts), b.dir) {
		b.t.Errorf("a mount is left:\n%s", mounts)
	}
	h, err := cgroup.Find()
	must(b.t, err)
	names, err := h.Children(b.cgroup)
	must(b.t, err)
	for _, name := range names {
		if name != "shard" {
			b.t.Errorf("cgroup %s/%s is left", b.cgroup, name)
		}
	}
}

// removeCgroups removes those of the shard itself, which is just ending.
func (b *bed) removeCgroups() {
	h, err := cgroup.Find()
	must(b.t, err)
	if err := h.RemoveAll(b.cgroup); err != nil {
		b.t.Error(err)
	}
}

// spec is that of a container which runs a command in the image.
func (b *bed) spec(id string, args ...string) *specs.Spec {
	return &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{},
		Process: &specs.Process{Args: args, Cwd: "/", Env: []string{"PATH=/bin"}},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=755"}},
		},
		Linux: &specs.Linux{
			CgroupsPath: b.cgroup + "/" + id,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
				{Type: specs.NetworkNamespace},
			},
		},
	}
}

// request asks for a container with an overlay of its own over the image.
func (b *bed) request(id string, spec *specs.Spec) protocol.Start {
	b.t.Helper()
	for _, d := range []string{"upper", "work"} {
		must(b.t, os.MkdirAll(filepath.Join(b.dir, id, d), 0o755))
	}
	encoded, err := json.Marshal(spec)
	must(b.t, err)
	return protocol.Start{
		ID: id, Spec: encoded, Runtime: b.runtime, LogPath: b.logPath(id), Labels: map[string]string{"test": b.t.Name()},
		Rootfs: []protocol.Mount{{Type: "overlay", Source: "overlay", Options: []string{
			"lowerdir=" + b.image, "upperdir=" + filepath.Join(b.dir, id, "upper"), "workdir=" + filepath.Join(b.dir, id, "work"),
		}}},
	}
}

func (b *bed) logPath(id string) string { return filepath.Join(b.dir, id+".log") }

// run starts a command.
func (b *bed) run(id string, args ...string) protocol.Container {
	b.t.Helper()
	c, err := b.Start(b.context(), b.request(id, b.spec(id, args...)))
	must(b.t, err)
	if c.ID != id || !c.State.Ended() && c.State != protocol.Running {
		b.t.Fatalf("started as %+v", c)
	}
	return c
}

// exit waits for the end of a container.
func (b *bed) exit(id string) protocol.Container {
	b.t.Helper()
	late := time.After(2 * time.Minute)
	for {
		select {
		case c := <-b.exits:
			if c.ID == id {
				return c
			}
		case <-late:
			b.t.Fatalf("container %s does not end", id)
		}
	}
}

// log returns the records of a log without their times.
func (b *bed) log(id string) []string {
	b.t.Helper()
	content, err := os.ReadFile(b.logPath(id))
	must(b.t, err)
	var records []string
	for line := range strings.Lines(string(content)) {
		_, record, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		records = append(records, record)
	}
	return records
}

// die kills the shard and waits until it is dead.
func (b *bed) die() {
	b.t.Helper()
	pid := b.PID()
	handle, err := unix.PidfdOpen(pid, 0)
	must(b.t, err)
	defer unix.Close(handle)
	must(b.t, unix.Kill(pid, unix.SIGKILL))
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 60000)
	}
	must(b.t, err)
}

// stop stops the shard, and waits until none of its threads runs any more: one that does still reads what is written now.
func (b *bed) stop() {
	b.t.Helper()
	must(b.t, unix.Kill(b.PID(), unix.SIGSTOP))
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", b.PID()))
		must(b.t, err)
		runs := slices.ContainsFunc(threads, func(stat string) bool {
			content, err := os.ReadFile(stat)
			_, state, _ := strings.Cut(string(content), ") ")
			return err == nil && !strings.HasPrefix(state, "T")
		})
		if !runs {
			return
		}
		if time.Now().After(late) {
			b.t.Fatal("the shard does not stop")
		}
	}
}

// eachRuntimeSerially is for tests that change the environment.
func eachRuntimeSerially(t *testing.T, test func(t *testing.T, b *bed)) {
	for _, name := range []string{"crun", "runc"} {
		t.Run(name, func(t *testing.T) { test(t, newBed(t, name)) })
	}
}
