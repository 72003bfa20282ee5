package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/docker/go-units"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/daemon/host"
	"github.com/jobd/jobd/internal/systemd"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/containerd"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/pins"
	"github.com/jobd/jobd/runtime/userns"
)

func root(context.Context, *patient) (string, error) {
	if uid := os.Geteuid(); uid != 0 {
		return "", fmt.Errorf("this is uid %d, and only root can run containers; nothing else was examined", uid)
	}
	return "root", nil
}

// kernel says where this is. What a kernel lacks shows in the other checks.
func kernel(context.Context, *patient) (string, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return "", err
	}
	release := unix.ByteSliceToString(uts.Release[:])
	where := ""
	switch host.Where() {
	case host.InWSL:
		where = " (WSL: with systemd=true in /etc/wsl.conf it has what jobd needs)"
	case host.InContainer:
		where = " (in a container, which has to be privileged)"
	}
	return "Linux " + release + where, nil
}

// controlGroups looks for the controllers that limits of pods need.
func controlGroups(_ context.Context, p *patient) (string, error) {
	groups, err := cgroup.Find()
	if err != nil {
		return "", err
	}
	kind := groups.Describe()
	if kind == "" {
		return "", errors.New("no control groups are mounted: containers cannot be kept apart, limited or ended")
	}
	for _, one := range []struct{ controller, cost string }{
		{"memory", "memory limits of pods have no effect"},
		{"cpu", "CPU limits and requests of pods have no effect"},
		{"pids", "the number of processes of a pod cannot be limited"},
	} {
		if !groups.Has(one.controller) {
			p.logger.Warn("the controller " + one.controller + " is missing: " + one.cost)
		}
	}
	return kind, nil
}

// containers starts what holds containers, which runs one, and ends it.
func containers(ctx context.Context, p *patient) (string, error) {
	if _, err := oci.ReadHost(); err != nil {
		return "", err
	}
	shim, err := p.config.ShimPath()
	if err != nil {
		return "", err
	}
	if err := containerd.KeepMountsIn(p.config.State); err != nil {
		return "", err
	}
	defer func() { p.undone(containerd.Clean(context.WithoutCancel(ctx), p.config.Root, p.config.State)) }()
	r, err := containerd.Open(ctx, containerd.Config{
		Root: p.config.Root, State: p.config.State, CgroupParent: runtime.CgroupParent(p.config.Root),
		OCIRuntime: p.config.OCIRuntime, Handlers: p.config.RuntimeHandlers, ShimPath: shim,
		RuntimeTimeout: p.config.RuntimeRequestTimeout.Duration, Shards: 1, Logger: p.logger,
	})
	if none := (*containerd.NoOCIRuntime)(nil); err != nil && (!errors.As(err, &none) || none.Installed) {
		return "", unhelped{err}
	}
	if err != nil {
		return "", err
	}
	defer r.Close()
	return r.Describe(), nil
}

// bridge makes a bridge and its rules, and removes them.
func bridge(_ context.Context, p *patient) (string, error) {
	if mode := network.Mode(p.config.Network); mode == network.Host || mode == network.None {
		return string(mode) + ", as configured", nil
	}
	defer func() { p.undone(network.Clean(p.config.Root)) }()
	n, err := network.Open(network.Options{
		Root: p.config.Root, State: p.config.State, Mode: network.Bridge, Pins: &pins.Pins{}, Logger: p.logger,
	})
	if err != nil {
		return "", fmt.Errorf("pods have no network but their loopback interface: %w", err)
	}
	return n.Describe(), nil
}

func userNamespaces(_ context.Context, p *patient) (string, error) {
	shim, err := p.config.ShimPath()
	if err != nil {
		return "", err
	}
	files, err := userns.ReadFiles()
	if err != nil {
		return "", err
	}
	ids, err := userns.Choose(p.config.UserNamespaceRange, files)
	if err != nil {
		return "", err
	}
	users, err := userns.Open(userns.Options{
		Dir: p.config.StateLayout().UserNamespaces(), IDs: ids, Owner: p.config.Root, On: []string{p.config.Root, p.config.State},
		Program: shim, Pins: &pins.Pins{},
	})
	if err != nil {
		return "", err
	}
	if err := users.Supported(); err != nil {
		return "", fmt.Errorf("no pod can have users of its own: %w", err)
	}
	return fmt.Sprintf("for %d pods at a time", ids.Pods()), nil
}

func appArmor(_ context.Context, p *patient) (string, error) {
	if a := containerd.OpenAppArmor(p.config.Root, p.logger); a != nil {
		return "containers have containerd's default profile", nil
	}
	return "the kernel does not use it", nil
}

// disk looks at the disk of the root as the daemon does, which keeps pods away from a full one.
func disk(_ context.Context, p *patient) (string, error) {
	var s unix.Statfs_t
	where := existing(p.wanted.Root)
	if err := unix.Statfs(where, &s); err != nil {
		return "", fmt.Errorf("%s: %w", where, err)
	}
	free, all := float64(s.Bavail)*float64(s.Bsize), float64(s.Blocks)*float64(s.Bsize)
	text := fmt.Sprintf("%s of %s are free at %s", units.BytesSize(free), units.BytesSize(all), where)
	switch {
	case s.Type == unix.TMPFS_MAGIC:
		return "", errors.New(text + ", which is in memory: Jobs and results are lost when the host restarts")
	case free < all/100:
		return "", errors.New(text + ", less than 1 %: no pod starts")
	case free < 2<<30:
		return "", errors.New(text + ": images may not fit")
	}
	return text, nil
}

// clock asks the kernel whether its clock is synchronized.
func clock(_ context.Context, p *patient) (string, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err == nil && (state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0) {
		err = errors.New("the clock is not synchronized: CronJobs may run at the wrong time, and certificates may appear not to be valid")
	}
	if err != nil {
		p.logger.Warn(err.Error(), helps, clockHelp(host.Where(), systemd.Runs()))
	}
	return "it is synchronized", nil
}

// clockHelp says what synchronizes the clock here.
func clockHelp(place host.Place, systemd bool) string {
	switch {
	case place == host.InContainer:
		return "a container has the clock of its machine: synchronize it there"
	case systemd:
		return "systemctl enable --now systemd-timesyncd"
	}
	return "start a client of NTP, such as chrony (apt install chrony)"
}

func openFiles(context.Context, *patient) (string, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return "", err
	}
	const wanted = 65536
	if limit.Max < wanted {
		return "", fmt.Errorf("at most %d files may be open: with many pods or clients at once, some are refused", limit.Max)
	}
	return fmt.Sprint("at most ", limit.Max), nil
}

// hub is the registry of images that name none.
const hub = "https://registry-1.docker.io/v2/"

// registry reports whether somebody answers there; a mirror is not looked for.
func registry(ctx context.Context, _ *patient) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, hub, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("Docker Hub is out of reach, so its images cannot be pulled: %w", err)
	}
	response.Body.Close()
	return "Docker Hub answers", nil
}

// programs looks for those that only some pods need.
func programs(_ context.Context, p *patient) (string, error) {
	var there []string
	for _, one := range []struct{ name, cost, help string }{
		{"mount.nfs", "volumes of type nfs cannot be mounted", "apt install nfs-common"},
		{"mkfs.ext4", "claims whose size is enforced by a file of their own cannot be made", "apt install e2fsprogs"},
	} {
		if _, err := exec.LookPath(one.name); err != nil {
			p.logger.Warn(one.name+" is missing: "+one.cost, helps, one.help)
			continue
		}
		there = append(there, one.name)
	}
	return strings.Join(there, ", "), nil
}
