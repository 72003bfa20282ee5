package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/testdata/rig"
)

// podman runs containers below directories of its own.
type podman struct{ disk, state string }

// newPodman returns an error if podman is not installed or cannot run a container, for example because a process may
// not raise its limits.
func newPodman(ctx context.Context, disk string) (*podman, error) {
	if _, err := exec.LookPath("podman"); err != nil {
		return nil, err
	}
	p := &podman{}
	var err error
	if p.disk, err = os.MkdirTemp(disk, "podman."); err == nil {
		p.state, err = os.MkdirTemp(rig.Memory(), "jobd-bench-podman.")
	}
	if err != nil {
		p.close()
		return nil, err
	}
	archive, err := rig.Busybox()
	if err == nil {
		load := p.command(ctx, "load")
		load.Stdin = archive
		err = p.try(load)
	}
	if err == nil {
		err = p.try(p.containerCommand(ctx))
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *podman) try(cmd *exec.Cmd) error {
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("podman %s: %w: %s", cmd.Args[len(cmd.Args)-1], err, strings.Join(strings.Fields(string(output)), " "))
	}
	return nil
}

func (p *podman) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "podman", append([]string{"--root", p.disk, "--runroot", p.state, "--tmpdir", filepath.Join(p.state, "tmp"),
		"--cgroup-manager", "cgroupfs", "--runtime", "crun"}, args...)...)
}

// containerCommand leaves the limits as they are, and the container without a network, as the raw ones are.
func (p *podman) containerCommand(ctx context.Context) *exec.Cmd {
	return p.command(ctx, "run", "--rm", "--ulimit", "host", "--network", "none", "docker.io/library/busybox:1.36", "true")
}

func (p *podman) containers(ctx context.Context, n, parallel int) (float64, error) {
	return rate(ctx, n, parallel, func(int) *exec.Cmd { return p.containerCommand(ctx) })
}

func (p *podman) close() {
	if p == nil {
		return
	}
	_ = p.command(context.Background(), "rm", "--all", "--force").Run()
	_ = unix.Unmount(filepath.Join(p.disk, "overlay"), unix.MNT_DETACH) // its driver's, over itself
	for _, dir := range []string{p.disk, p.state} {
		if dir != "" {
			os.RemoveAll(dir)
		}
	}
}
