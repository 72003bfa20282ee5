package volume

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/internal/mountlist"
	"github.com/jobd/jobd/internal/outside"
	"github.com/jobd/jobd/runtime/untrusted"
)

// UnmountBelow unmounts all that is mounted below a directory. When it returns nil, nothing is left there, so that removing the
// directory cannot reach what had been mounted.
func UnmountBelow(dir string) error {
	// The kernel names mounts by their real paths.
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for before := math.MaxInt; ; { // a place may have several mounts, one over the other
		below, err := mountPoints(dir)
		if err != nil || len(below) == 0 {
			return err
		}
		if len(below) >= before {
			return fmt.Errorf("unmount %s: still mounted", below[0].Mountpoint)
		}
		before = len(below)
		for _, m := range untrusted.Outermost(below) {
			if err := detach(dir, m.Mountpoint, mayKeepAlone(m, below)); err != nil {
				return fmt.Errorf("unmount %s: %w", m.Mountpoint, err)
			}
		}
	}
}

// detach unmounts what is mounted at a place below a directory, with all that is mounted in it. No symlink leads elsewhere.
func detach(dir, place string, alone bool) error {
	rel, err := filepath.Rel(dir, place)
	if err != nil {
		return err
	}
	top, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	in, err := outside.Open(top, filepath.Dir(rel), unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return err
	}
	defer unix.Close(in)
	point := "/proc/self/fd/" + strconv.Itoa(in) + "/" + filepath.Base(rel)
	if alone { // before it goes: what is mounted in it would be unmounted from its peers too
		if err := keepAlone(point); err != nil && !gone(err) {
			return fmt.Errorf("keep it alone: %w", err)
		}
	}
	// Detached: a container that still has it open must not keep the pod's directory.
	if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !gone(err) {
		return err
	}
	return nil
}

// checkNested refuses to show a path of the host in which so much is mounted that the pod had more mounts than it may need: all of them
// are mounted once more. Users can mount a thousand file systems of their own (fuse.conf), and the kernel has room for so many mounts in all.
func (v *Volumes) checkNested(pod *corev1.Pod, fd int) error {
	if !slices.ContainsFunc(pod.Spec.Volumes, func(of corev1.Volume) bool { return of.HostPath != nil }) {
		return nil // nothing is mounted in what is jobd's own
	}
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return err
	}
	nested, err := mountPoints(path)
	if err != nil || len(nested) == 0 {
		return err
	}
	own, err := mountPoints(v.statePod(string(pod.UID)))
	if err == nil && len(own)+1+len(nested) > core.MaxHostMounts {
		err = fmt.Errorf("%d mounts are in it, and with those a pod would have more than the %d mounts that it may need: %w",
			len(nested), core.MaxHostMounts, errdefs.ErrResourceExhausted)
	}
	return err
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
	infos, err := mountlist.Get(func(i *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(i.Mountpoint, strings.TrimSuffix(dir, "/")+"/"), false
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
