package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// UnmountBelow unmounts all that is mounted below a directory, the last first. When it returns nil, nothing is
// left there, so that removing the directory cannot reach what had been mounted.
func UnmountBelow(dir string) error {
	// The kernel names mounts by their real paths.
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	below, err := mountPoints(dir)
	if err != nil {
		return err
	}
	for _, m := range below { // all of them before one goes: that would unmount it from its parent's peers too
		if !mayKeepAlone(m, below) {
			continue
		}
		if err := keepAlone(m.Mountpoint); err != nil && !gone(err) {
			return fmt.Errorf("keep %s alone: %w", m.Mountpoint, err)
		}
	}
	for _, m := range slices.Backward(below) {
		// Detached: a container that still has it open must not keep the pod's directory.
		if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !gone(err) {
			return fmt.Errorf("unmount %s: %w", m.Mountpoint, err)
		}
	}
	if below, err = mountPoints(dir); err != nil {
		return err
	} else if len(below) > 0 {
		return fmt.Errorf("unmount %s: still mounted", below[0].Mountpoint)
	}
	return nil
}

// unmountOwn unmounts file systems in memory that a pod has below STATE, as long as nothing is mounted in them. For all other mounts of
// the pod there is UnmountBelow, which reads the machine's whole list of mounts: long where many pods run.
func unmountOwn(pod string) {
	places := []string{sharedMemoryPlace(pod)}
	for _, kind := range []string{"files", "emptydir"} {
		volumes := filepath.Join(pod, "volumes", kind)
		entries, _ := os.ReadDir(volumes)
		for _, e := range entries {
			places = append(places, filepath.Join(volumes, e.Name()))
		}
	}
	for _, place := range places {
		_ = unix.Unmount(place, unix.UMOUNT_NOFOLLOW) // what stays is seen when its directory is removed
	}
}

// mayKeepAlone reports whether a mount may be opened to make it private. To open one of NFS asks its server, which may
// be silent for ever. It matters only where something else is mounted on it.
func mayKeepAlone(m *mountinfo.Info, mounts []*mountinfo.Info) bool {
	return !strings.HasPrefix(m.FSType, "nfs") ||
		slices.ContainsFunc(mounts, func(other *mountinfo.Info) bool { return other.Parent == m.ID })
}

// gone reports whether nothing is mounted at a place any more.
func gone(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) }

// keepAlone makes a mount and those below it private, so that what happens to them does not happen to the mounts that
// they are shared with: where a path of the host is shown, unmounting what lies below would unmount it on the host too.
func keepAlone(point string) error {
	fd, err := unix.Open(point, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Mount("", "/proc/self/fd/"+strconv.Itoa(fd), "", unix.MS_PRIVATE|unix.MS_REC, "")
}

// mountPoints lists what is mounted below a directory, in the order of mounting.
func mountPoints(dir string) ([]*mountinfo.Info, error) {
	infos, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(i.Mountpoint, dir+"/"), false
	})
	if err != nil {
		return nil, fmt.Errorf("mounts below %s: %w", dir, err)
	}
	return infos, nil
}

func isMountPoint(path string) (bool, error) {
	mounted, err := mountinfo.Mounted(path)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return mounted, err
}
