package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
	"github.com/jobd/jobd/runtime/volume"
)

// Clean ends every container and shard of a root and removes what they have on the host: processes, cgroups, mounts,
// pinned namespaces, the default AppArmor profile, the state directory. Nothing else is touched, and the root stays.
// It needs no daemon, and may be repeated. It must not run beside a daemon on the same root.
func Clean(ctx context.Context, root, state string) error {
	// The shards go first, so that nothing is left that would start containers.
	cgroups, err := cgroup.Find()
	if err == nil {
		// The first process of a PID namespace, which is among the shards' processes, ends after all others: so those that are
		// frozen must not stay so. They are killed together with it.
		cgroups.Signal(runtime.ShardCgroup(root), unix.SIGKILL)
		cgroups.Release(runtime.CgroupParent(root))
		err = cgroups.RemoveAll(runtime.ShardCgroup(root))
	}
	if err == nil {
		err = cgroups.RemoveAll(runtime.CgroupParent(root))
	}
	if err != nil {
		return fmt.Errorf("clean: %w", err)
	}
	if err := endShards(ctx, state); err != nil {
		return fmt.Errorf("clean: %w", err)
	}
	// Nothing that the profile would confine runs any more.
	if err := removeAppArmorDefault(root); err != nil {
		return fmt.Errorf("clean: %w", err)
	}
	// Only what is known to be ours is unmounted and removed: a wrong path must do no other harm.
	for _, dir := range append(layout.State(state).Mounts(), layout.Root(root).Mounts()...) {
		if err := volume.UnmountBelow(dir); err != nil {
			return fmt.Errorf("clean: %w", err)
		}
	}
	own, err := layout.State(state).Own()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clean: %w", err)
	}
	for _, path := range own {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clean: %w", err)
		}
	}
	// The directory stays if something else is in it, if it is a mount point, or if it is systemd's.
	switch err := unix.Rmdir(state); err {
	case nil, unix.ENOENT, unix.ENOTEMPTY, unix.EBUSY:
		return nil
	default:
		return fmt.Errorf("clean: remove %s: %w", state, err)
	}
}

// GoDown ends the processes that hold what runs and has run on a machine that goes down, once the runtime is closed and nothing runs
// any more. They do not follow SIGTERM while they hold containers, and systemd would wait for them for a minute and a half.
func GoDown(root string) error {
	cgroups, err := cgroup.Find()
	if err != nil {
		return err
	}
	cgroups.Signal(runtime.ShardCgroup(root), unix.SIGKILL)
	return nil
}

// endShards ends the shards that could not be put into the control group.
func endShards(ctx context.Context, state string) error {
	sockets, err := filepath.Glob(protocol.SocketPath(filepath.Join(layout.State(state).Shards(), "*")))
	if err != nil {
		return err
	}
	for _, socket := range sockets {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		client, err := shard.Dial(ctx, socket, nil)
		cancel()
		if errors.Is(err, errdefs.ErrUnavailable) {
			continue
		} else if err != nil {
			return err
		}
		pid := client.Hello().PID
		client.Close()
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end shard %d: %w", pid, err)
		}
	}
	return nil
}
