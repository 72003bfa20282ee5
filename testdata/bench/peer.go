package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// peer runs containers with crun as jobd would: with the same spec, all that a pod's container has over a bare one, and
// a root file system that is mounted for each. What difference is left between the two is jobd's own.
type peer struct {
	raw     *raw
	spec    specs.Spec
	options string // of the overlay, except for the directories that are written to
	layers  string // where those are: on disk, like jobd's
}

// newPeer takes the spec of a container from a daemon, and leaves that container running for the sake of the files that
// it mounts.
func newPeer(ctx context.Context, r *raw, d *daemon) (*peer, error) {
	_, err := d.watch(ctx, job("spec", 1, 1, "sleep", "86400"), func(j *batchv1.Job) bool {
		return j.Status.Ready != nil && *j.Status.Ready == 1
	})
	if err != nil {
		return nil, err
	}
	bundles, err := filepath.Glob(filepath.Join(d.State, "shards/*/containers/*"))
	if err != nil || len(bundles) != 1 {
		return nil, fmt.Errorf("%d containers for one pod: %w", len(bundles), err)
	}
	p := &peer{raw: r}
	if p.layers, err = os.MkdirTemp(filepath.Dir(d.Root), "peer."); err != nil {
		return nil, err
	}
	var start protocol.Start
	for name, v := range map[string]any{"config.json": &p.spec, "start": &start} {
		content, err := os.ReadFile(filepath.Join(bundles[0], name))
		if err == nil {
			err = json.Unmarshal(content, v)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, option := range start.Rootfs[0].Options {
		if !strings.HasPrefix(option, "upperdir=") && !strings.HasPrefix(option, "workdir=") {
			p.options += option + ","
		}
	}
	p.spec.Process.Args = []string{"true"}
	return p, nil
}

// peerCgroup is the parent of its containers' cgroups.
const peerCgroup = "jobd-bench-peer"

func (p *peer) close() {
	os.RemoveAll(p.layers)
	for _, pattern := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/"} {
		left, _ := filepath.Glob(pattern + peerCgroup)
		for _, dir := range left {
			_ = os.Remove(dir)
		}
	}
}

// containers returns how many ran in a second, and the CPU time that each took, in ms.
func (p *peer) containers(ctx context.Context, n, parallel int) (perSecond, cpu float64, err error) {
	jobs := make(chan string)
	failed := make(chan error, parallel)
	var used atomic.Int64
	var group sync.WaitGroup
	begin := time.Now()
	for i := range parallel {
		group.Go(func() {
			runtime.LockOSThread() // for good: it has a mount namespace of its own
			if err := p.work(ctx, filepath.Join(p.raw.dir, "peer", strconv.Itoa(i)), jobs, &used); err != nil {
				failed <- err
				for range jobs { // let the others go on
				}
			}
		})
	}
	prefix := "p" + strconv.FormatInt(p.raw.n.Add(1), 10)
	for i := range n {
		jobs <- fmt.Sprintf("%s-%d", prefix, i)
	}
	close(jobs)
	group.Wait()
	took := time.Since(begin)
	select {
	case err = <-failed:
	default:
	}
	return float64(n) / took.Seconds(), time.Duration(used.Load()).Seconds() / float64(n) * 1000, err
}

// work runs one container after the other.
func (p *peer) work(ctx context.Context, bundle string, ids <-chan string, used *atomic.Int64) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	_ = unix.Unmount("/sys/fs/cgroup/unified", unix.MNT_DETACH) // as in raw.containers
	root, layer := filepath.Join(bundle, "rootfs"), filepath.Join(p.layers, filepath.Base(bundle))
	for _, dir := range []string{root, filepath.Join(layer, "upper"), filepath.Join(layer, "work")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	options := p.options + "upperdir=" + filepath.Join(layer, "upper") + ",workdir=" + filepath.Join(layer, "work")
	for id := range ids {
		spec := p.spec
		linux := *spec.Linux
		linux.CgroupsPath, spec.Linux = "/"+peerCgroup+"/"+id, &linux
		data, err := json.Marshal(spec)
		if err == nil {
			err = os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o644)
		}
		if err == nil {
			err = unix.Mount("overlay", root, "overlay", 0, options)
		}
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "crun", "--root", filepath.Join(p.raw.dir, "crun"), "run", "--bundle", bundle, id)
		output, err := cmd.CombinedOutput()
		if err := unix.Unmount(root, 0); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("crun run: %w: %s", err, output)
		}
		used.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
		if err := os.RemoveAll(filepath.Join(layer, "work", "work", "incompat")); err != nil { // of a volatile overlay
			return err
		}
	}
	return nil
}
