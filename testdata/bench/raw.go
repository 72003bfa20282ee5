package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/testdata/rig"
)

// raw runs containers without jobd: the limit that jobd is compared with.
type raw struct {
	dir        string // in memory
	bundle     string // on the disk
	spec       specs.Spec
	disk       string // what containerd has on disk
	runtimes   []string
	containerd *exec.Cmd // nil without ctr
	n          atomic.Int64
}

// newRaw makes a bundle of busybox below disk that runs true, with the namespaces that a pod has. What the runtime itself
// writes about its containers is in memory, as it is by default.
func newRaw(disk string) (*raw, error) {
	dir, err := os.MkdirTemp(rig.Memory(), "jobd-bench-raw.")
	if err != nil {
		return nil, err
	}
	r := &raw{dir: dir, bundle: filepath.Join(disk, "raw", "bundle")}
	root := filepath.Join(r.bundle, "rootfs")
	for _, d := range []string{"bin", "proc", "sys", "dev", "etc", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return r, err
		}
	}
	if err := copyFile("/bin/busybox", filepath.Join(root, "bin", "true")); err != nil {
		return r, fmt.Errorf("apt install busybox-static: %w", err)
	}
	for _, name := range []string{"sh", "yes", "head"} {
		if err := os.Link(filepath.Join(root, "bin", "true"), filepath.Join(root, "bin", name)); err != nil {
			return r, err
		}
	}
	for _, name := range []string{"crun", "runc"} {
		if _, err := exec.LookPath(name); err == nil {
			r.runtimes = append(r.runtimes, name)
		}
	}
	r.spec = specs.Spec{
		Version: "1.0.2",
		Process: &specs.Process{Args: []string{"/bin/true"}, Cwd: "/", Env: []string{"PATH=/bin"}, NoNewPrivileges: true},
		Root:    &specs.Root{Path: "rootfs"},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=65536k"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666"}},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
			{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{{Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"}, {Type: "network"}},
		},
	}
	return r, r.command("/bin/true")
}

// command sets what containers of the bundle run.
func (r *raw) command(args ...string) error {
	spec := r.spec
	process := *spec.Process
	process.Args, spec.Process = args, &process
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.bundle, "config.json"), data, 0o644)
}

// chatty has n containers of crun each write into a file, all at a time.
func (r *raw) chatty(ctx context.Context, n int, command, prefix string) error {
	if err := r.command("/bin/sh", "-c", command); err != nil {
		return err
	}
	defer r.command("/bin/true")
	script := fmt.Sprintf(`umount /sys/fs/cgroup/unified 2>/dev/null
seq 0 %d | xargs -P %d -I{} sh -c 'crun --root %s/crun run --bundle %s %s-{} </dev/null >%s-{}' || exit 1`,
		n-1, n, r.dir, r.bundle, "l"+strconv.FormatInt(r.n.Add(1), 10), prefix)
	if out, err := exec.CommandContext(ctx, "unshare", "-m", "sh", "-c", script).CombinedOutput(); err != nil {
		return fmt.Errorf("crun run: %w: %s", err, out)
	}
	return nil
}

func (r *raw) close() {
	if r.containerd != nil {
		_ = r.containerd.Process.Signal(os.Interrupt)
		_ = r.containerd.Wait()
	}
	os.RemoveAll(r.dir)
	os.RemoveAll(r.bundle)
	os.RemoveAll(r.disk)
}

// startContainerd starts a containerd as Debian configures it, in directories of its own.
func (r *raw) startContainerd(ctx context.Context, disk string) error {
	for _, program := range []string{"containerd", "ctr"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil
		}
	}
	var err error
	if r.disk, err = os.MkdirTemp(disk, "containerd."); err != nil {
		return err
	}
	config := filepath.Join(r.dir, "containerd.toml")
	content := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		r.disk, filepath.Join(r.dir, "containerd"), filepath.Join(r.dir, "containerd.sock"))
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		return err
	}
	r.containerd = exec.Command("containerd", "--config", config, "--log-level", "error")
	if err := r.containerd.Start(); err != nil {
		r.containerd = nil
		return err
	}
	archive, err := rig.Busybox()
	if err != nil {
		return err
	}
	for range 200 {
		if exec.CommandContext(ctx, "ctr", "-a", filepath.Join(r.dir, "containerd.sock"), "version").Run() == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	cmd := exec.CommandContext(ctx, "ctr", "-a", filepath.Join(r.dir, "containerd.sock"), "image", "import", "-")
	cmd.Stdin = archive
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr image import: %w: %s", err, out)
	}
	return nil
}

// ctrRun is `ctr run --rm`.
func (r *raw) ctrRun(ctx context.Context, n, parallel int) (float64, error) {
	return rate(ctx, n, parallel, func(int) *exec.Cmd {
		return exec.CommandContext(ctx, "ctr", "-a", filepath.Join(r.dir, "containerd.sock"), "run", "--rm",
			"docker.io/library/busybox:1.36", "c"+strconv.FormatInt(r.n.Add(1), 10), "true")
	})
}

// rate runs a command n times, parallel of them at a time, and returns how many ran in a second.
func rate(ctx context.Context, n, parallel int, command func(i int) *exec.Cmd) (float64, error) {
	jobs := make(chan int)
	var failed atomic.Value
	var group sync.WaitGroup
	begin := time.Now()
	for range parallel {
		group.Go(func() {
			for i := range jobs {
				if out, err := command(i).CombinedOutput(); err != nil {
					failed.Store(fmt.Errorf("%w: %s", err, out))
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		jobs <- i
	}
	close(jobs)
	group.Wait()
	if err, ok := failed.Load().(error); ok {
		return 0, err
	}
	return float64(n) / time.Since(begin).Seconds(), ctx.Err()
}

// forkExec is the floor of floors.
func (r *raw) forkExec(ctx context.Context, parallel int) (float64, error) {
	return rate(ctx, 500, parallel, func(int) *exec.Cmd { return exec.CommandContext(ctx, "/bin/busybox", "true") })
}

// containers is `crun run` or `runc run` over a directory that is there already, its output thrown away. The loop runs in
// a mount namespace without the unified hierarchy, which crun 1.8 does not take beside the others.
func (r *raw) containers(ctx context.Context, runtime string, n, parallel int) (float64, error) {
	script := fmt.Sprintf(`umount /sys/fs/cgroup/unified 2>/dev/null
seq %d | xargs -P %d -I{} sh -c '%s --root %s/%s run --bundle %s %s-{} </dev/null >/dev/null' || exit 1`,
		n, parallel, runtime, r.dir, runtime, r.bundle, "b"+strconv.FormatInt(r.n.Add(1), 10))
	begin := time.Now()
	if out, err := exec.CommandContext(ctx, "unshare", "-m", "sh", "-c", script).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s run: %w: %s", runtime, err, out)
	}
	return float64(n) / time.Since(begin).Seconds(), nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
