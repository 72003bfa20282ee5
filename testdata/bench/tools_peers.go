package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jobd/jobd/testdata/rig"
)

// busyboxImage is in each of those that run containers, from the same archive.
const busyboxImage = "docker.io/library/busybox:1.36"

// printScript is print.sh for a container.
func (t *toolsDir) printScript() (string, error) {
	text, err := os.ReadFile(t.script)
	return string(text), err
}

// lacking returns an error if one of the programs is missing.
func lacking(programs ...string) error {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return err
		}
	}
	return nil
}

// answers waits until a command succeeds.
func answers(ctx context.Context, t *tool, args ...string) error {
	var err error
	for range 200 {
		if _, err = t.seconds(ctx, args); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// serve starts a program that goes on until the tool is closed.
func serve(t *tool, args ...string) error {
	cmd := t.command(context.Background(), args)
	cmd.Stderr = &t.said
	if err := cmd.Start(); err != nil {
		return err
	}
	before := t.close
	t.close = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		late.Stop()
		if before != nil {
			before()
		}
	}
	return nil
}

func jobdTool(ctx context.Context, b *bench, dir *toolsDir) (*tool, error) {
	d, err := b.start(ctx, "--network", "none")
	if err != nil {
		return nil, err
	}
	jobctl := filepath.Join(b.bin, "jobctl")
	script, err := dir.printScript()
	submit := func(args ...string) []string {
		return append([]string{jobctl, "--socket", d.Socket(), "submit", "--progress", "quiet", "--image", busyboxImage}, args...)
	}
	return &tool{
		one:   func() []string { return submit("--", "true") },
		print: func() []string { return submit("--", "sh", "-c", script) },
		array: func(n, parallel int) []string {
			return submit("--indexed", "--completions", fmt.Sprint(n), "--parallelism", fmt.Sprint(parallel), "--", "true")
		},
		load: func(archive string) []string {
			return []string{jobctl, "--socket", d.Socket(), "image", "import", archive}
		},
		close: d.close,
	}, err
}

// slurmTool starts a cluster of this machine alone, with a key of its own.
func slurmTool(ctx context.Context, _ *bench, dir *toolsDir) (*tool, error) {
	if err := lacking("slurmctld", "slurmd", "srun", "sbatch", "munged"); err != nil {
		return nil, err
	}
	at := filepath.Join(dir.path, "slurm")
	if err := os.MkdirAll(filepath.Join(at, "spool"), 0o755); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	host, _, _ = strings.Cut(host, ".")
	config := strings.NewReplacer("AT", at, "HOST", host).Replace(`ClusterName=bench
SlurmctldHost=HOST(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=AT/munge.sock
CryptoType=crypto/munge
SlurmctldPort=26817
SlurmdPort=26818
StateSaveLocation=AT/spool
SlurmdSpoolDir=AT/spool
SlurmctldPidFile=AT/ctld.pid
SlurmdPidFile=AT/d.pid
SlurmctldLogFile=AT/ctld.log
SlurmdLogFile=AT/d.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MaxArraySize=100000
MaxJobCount=100000
ReturnToService=2
NodeName=HOST NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`)
	if err := os.WriteFile(filepath.Join(at, "slurm.conf"), []byte(config), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(at, "munge.key"), []byte(strings.Repeat("a key of the benchmark ", 10)), 0o600); err != nil {
		return nil, err
	}
	t := &tool{
		env:   []string{"SLURM_CONF=" + filepath.Join(at, "slurm.conf")},
		one:   func() []string { return []string{"srun", "true"} },
		print: func() []string { return []string{"srun", dir.script} },
		array: func(n, parallel int) []string {
			return []string{"sbatch", "--wait", fmt.Sprintf("--array=0-%d%%%d", n-1, parallel), "-o", "/dev/null", "--wrap", "true"}
		},
		startsLater: true, // by default its scheduler comes by every half minute for an array that may run no more at a time
	}
	err = serve(t, "munged", "--foreground", "--force", "--key-file="+at+"/munge.key", "--socket="+at+"/munge.sock", "--pid-file="+at+"/munge.pid",
		"--log-file="+at+"/munge.log", "--seed-file="+at+"/munge.seed")
	if err == nil {
		err = answers(ctx, t, "munge", "--socket="+at+"/munge.sock", "--no-input")
	}
	if err == nil {
		err = serve(t, "slurmctld", "-D", "-c")
	}
	if err == nil {
		err = serve(t, "slurmd", "-D", "-N", host)
	}
	if err == nil {
		err = answers(ctx, t, "timeout", "5", "srun", "--immediate=3", "true")
	}
	return closedOn(err, t)
}

// closedOn ends what a tool has begun if it cannot be used, and adds what that has said last.
func closedOn(err error, t *tool) (*tool, error) {
	if err == nil {
		return t, nil
	}
	if t.close != nil {
		t.close() // waits for its processes, which write no more
	}
	return nil, fmt.Errorf("%w\n%s", err, t.said.text)
}

func dockerTool(ctx context.Context, _ *bench, dir *toolsDir) (*tool, error) {
	if err := lacking("docker", "dockerd", "containerd"); err != nil {
		return nil, err
	}
	at := filepath.Join(dir.path, "docker")
	state, err := os.MkdirTemp(rig.Memory(), "jobd-bench-docker.") // containerd refuses longer paths of sockets
	if err != nil {
		return nil, err
	}
	socket := "unix://" + filepath.Join(state, "s")
	docker := func(args ...string) []string { return append([]string{"docker", "-H", socket}, args...) }
	run := func(args ...string) []string {
		return docker(append([]string{"run", "--rm", "--network", "none", "busybox:1.36"}, args...)...)
	}
	script, err := dir.printScript()
	if err != nil {
		return nil, err
	}
	t := &tool{
		one: func() []string { return run("true") }, print: func() []string { return run("sh", "-c", script) },
		load:  func(archive string) []string { return docker("load", "-i", archive) },
		close: func() { os.RemoveAll(state) },
	}
	if err := serve(t, "dockerd", "-H", socket, "--data-root", at, "--exec-root", filepath.Join(state, "exec"), "--pidfile", filepath.Join(state, "pid"),
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--log-level", "error"); err != nil {
		return closedOn(err, t)
	}
	err = answers(ctx, t, docker("version")...)
	if err == nil {
		err = loadBusybox(t.command(ctx, docker("load")))
	}
	return closedOn(err, t)
}

// loadBusybox gives the image that everything runs to a command that takes it in.
func loadBusybox(cmd *exec.Cmd) error {
	archive, err := rig.Busybox()
	if err != nil {
		return err
	}
	cmd.Stdin = archive
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func podmanTool(ctx context.Context, b *bench, dir *toolsDir) (*tool, error) {
	p, err := newPodman(ctx, b.disk.Dir)
	if err != nil {
		return nil, err
	}
	script, err := dir.printScript()
	run := func(args ...string) []string {
		return p.command(ctx, append([]string{"run", "--rm", "--ulimit", "host", "--network", "none", busyboxImage}, args...)...).Args
	}
	return &tool{
		one: func() []string { return run("true") }, print: func() []string { return run("sh", "-c", script) },
		load:  func(archive string) []string { return p.command(ctx, "load", "-i", archive).Args },
		close: p.close,
	}, err
}

func ctrTool(ctx context.Context, b *bench, dir *toolsDir) (*tool, error) {
	if err := b.raw.startContainerd(ctx, b.disk.Dir); err != nil {
		return nil, err
	}
	if b.raw.containerd == nil {
		return nil, errors.New("containerd or ctr is not installed")
	}
	script, err := dir.printScript()
	ctr := func(args ...string) []string {
		return append([]string{"ctr", "-a", filepath.Join(b.raw.dir, "containerd.sock")}, args...)
	}
	run := func(args ...string) []string {
		return append(ctr("run", "--rm", busyboxImage, dir.unique()), args...)
	}
	return &tool{
		one: func() []string { return run("true") }, print: func() []string { return run("sh", "-c", script) },
		load:  func(archive string) []string { return ctr("image", "import", archive) },
		close: func() {}, // raw does that
	}, err
}

func spoolerTool(ctx context.Context, _ *bench, dir *toolsDir) (*tool, error) {
	if err := lacking("tsp"); err != nil {
		return nil, err
	}
	t := &tool{
		env:   []string{"TS_SOCKET=" + filepath.Join(dir.path, "tsp"), "TMPDIR=" + dir.path, "TS_SLOTS=8", "TS_MAXCONN=1000"},
		one:   func() []string { return []string{"tsp", "-n", "-f", "true"} },
		print: func() []string { return sh("tsp -f %s; tsp -c", dir.script) },
		array: func(n, parallel int) []string {
			return sh("tsp -C; tsp -S %d; for i in $(seq %d); do tsp -n true >/dev/null; done; while tsp -l | grep -Eq ' (queued|running) '; do sleep 0.02; done",
				parallel, n)
		},
	}
	t.close = func() { _, _ = t.seconds(context.Background(), []string{"tsp", "-K"}) }
	return t, nil
}

func parallelTool(_ context.Context, _ *bench, dir *toolsDir) (*tool, error) {
	if err := lacking("parallel"); err != nil {
		return nil, err
	}
	return &tool{
		env:   []string{"PARALLEL_HOME=" + dir.path},
		one:   func() []string { return []string{"parallel", "--will-cite", "-N0", "true", ":::", "1"} },
		print: func() []string { return []string{"parallel", "--will-cite", "sh", ":::", dir.script} },
		array: func(n, parallel int) []string { return sh("seq %d | parallel --will-cite -N0 -j %d true", n, parallel) },
		close: func() {},
	}, nil
}
