package server

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/mountlist"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/shard/protocol"
	"github.com/jobd/jobd/runtime/untrusted"
)

// showHost shows the host's files once more, at a place of the calling thread's mount namespace, which is not the host's. The copies
// follow the host's mounts where those are shared, as systemd has them: what is unmounted there goes here too, and nothing goes back.
//
// The root file system of the container is another one, which has nothing of the host's: directories of the copy are mounted in it, one
// by one. So whatever an OCI runtime makes, remounts or removes in a root file system, it does not do to the host's.
func (l *launcher) showHost(h *protocol.Host) error {
	if err := l.isAway(); err != nil {
		return err
	}
	entries, err := os.ReadDir(h.At)
	if err != nil {
		return fmt.Errorf("show the host: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("show the host: %s is not empty: %w", h.At, errdefs.ErrFailedPrecondition)
	}
	if err := unix.Mount("/", h.At, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("show the host at %s: %w", h.At, err)
	}
	crash.At("shard.host.shown")
	// What is mounted for other containers would be kept from being unmounted where mounts are not shared.
	for before := math.MaxInt; ; { // a place may have several mounts, one over the other
		mounted, err := mountlist.Get(nil)
		if err != nil {
			return fmt.Errorf("mounts: %w", err)
		}
		mounted = slices.DeleteFunc(mounted, func(m *mountinfo.Info) bool {
			below, found := strings.CutPrefix(m.Mountpoint, h.At)
			return !found || !slices.ContainsFunc(h.Without, func(dir string) bool { return inside(below, dir) })
		})
		if len(mounted) == 0 {
			return nil
		}
		if len(mounted) >= before {
			return fmt.Errorf("show the host without %s: still mounted", mounted[0].Mountpoint)
		}
		before = len(mounted)
		for _, m := range untrusted.Outermost(mounted) {
			if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && err != unix.EINVAL && err != unix.ENOENT {
				return fmt.Errorf("show the host without %s: %w", m.Mountpoint, err)
			}
		}
	}
}

// isAway returns an error if the calling thread is in the host's mount namespace.
func (l *launcher) isAway() error {
	var host, here unix.Stat_t
	if err := errors.Join(unix.Fstat(l.host, &host), unix.Stat("/proc/thread-self/ns/mnt", &here)); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if host.Dev == here.Dev && host.Ino == here.Ino {
		return fmt.Errorf("show the host in its own mount namespace: %w", errdefs.ErrInternal)
	}
	return nil
}

// linkHost makes the symlinks that the host has in its root, such as /bin, in a root file system that is mounted and that nothing uses
// yet.
func linkHost(h *protocol.Host, rootfs string) error {
	entries, err := os.ReadDir(h.At)
	if err != nil {
		return fmt.Errorf("root of the host: %w", err)
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 || slices.Contains(h.Own, e.Name()) {
			continue
		}
		to, err := os.Readlink(filepath.Join(h.At, e.Name()))
		if err == nil {
			err = os.Symlink(to, filepath.Join(rootfs, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("root of the host: %w", err)
		}
	}
	return nil
}
