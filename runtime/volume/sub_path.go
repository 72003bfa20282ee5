package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/internal/outside"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/untrusted"
)

// subPath mounts a path inside a volume at a place of the pod's own and returns that place. The path is opened beneath
// the volume, and what was opened is what is mounted: a pod that swaps a directory for a symlink in between gains
// nothing. What is missing is created as directories, if create is set; otherwise the path has to be one of a directory,
// as in an image.
func (v *Volumes) subPath(
	pod *corev1.Pod, container string, index int, volume, sub string, create bool,
) (string, error) {
	if filepath.IsAbs(sub) || !filepath.IsLocal(sub) {
		return "", fmt.Errorf("subpath %q not within volume path %q: %w", sub, volume, errdefs.ErrInvalidArgument)
	}
	as, err := v.hostUserOf(pod, container, index)
	if err != nil {
		return "", err
	}
	top, err := v.at(volume)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", volume, err)
	}
	defer top.Close()
	fd, err := openBeneath(top, sub, create, as)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if !create {
		var is unix.Stat_t
		if err := unix.Fstat(fd, &is); err != nil {
			return "", err
		} else if is.Mode&unix.S_IFMT != unix.S_IFDIR {
			return "", fmt.Errorf("only directory subpath is supported, subpath: %q: %w", sub, errdefs.ErrInvalidArgument)
		}
	}

	target := filepath.Join(v.statePod(string(pod.UID)), "subpaths", container, strconv.Itoa(index))
	if err := v.show(pod, volumeOf(pod, container, index), fd, target); err != nil {
		return "", fmt.Errorf("mount %s of %s: %w", sub, volume, err)
	}
	return target, nil
}

// show ensures that an open file of a volume is mounted at a place of a pod's own. What is mounted later on either side does not come to
// the other one, unless a container asks for that: a user could mount a file system once, and have it at a thousand places.
func (v *Volumes) show(pod *corev1.Pod, volume string, fd int, target string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if shown, err := shows(target, &stat); err != nil || shown {
		return err
	}
	if err := v.checkNested(pod, fd); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o711); err != nil {
		return err
	}
	var err error
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = makeDir(target, 0o711, 0o711)
	} else {
		err = makeFile(target)
	}
	if err != nil {
		return err
	}
	crash.At("volume.sub-path.before")
	if err := unix.Mount("/proc/self/fd/"+strconv.Itoa(fd), target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	crash.At("volume.sub-path.after")
	if spreads(pod, volume) {
		return nil
	}
	return keepAlone(target)
}

// shows reports whether a file is mounted at a place. What an earlier start of the container has mounted there is
// unmounted if another file of that name has since replaced it.
func shows(target string, file *unix.Stat_t) (bool, error) {
	if mounted, err := isMountPoint(target); err != nil || !mounted {
		return false, err
	}
	var there unix.Stat_t
	if err := unix.Stat(target, &there); err == nil && there.Dev == file.Dev && there.Ino == file.Ino {
		return true, nil
	}
	if err := keepAlone(target); err != nil {
		return false, err
	}
	if err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return false, err
	}
	return false, os.Remove(target) // it may have to be of the other kind now
}

// hostUserOf returns the user who has to have access to what is below a volume, if that is one of the host's paths: jobd's own
// places, at which it is mounted, nobody else may enter.
func (v *Volumes) hostUserOf(pod *corev1.Pod, container string, index int) (*runas.Identity, error) {
	name := volumeOf(pod, container, index)
	if !slices.ContainsFunc(pod.Spec.Volumes, func(of corev1.Volume) bool { return of.Name == name && of.HostPath != nil }) {
		return nil, nil
	}
	return v.hostUser(pod)
}

// volumeOf returns the name of the volume of one of a container's mounts; empty if there is no such container.
func volumeOf(pod *corev1.Pod, container string, index int) string {
	if c := podspec.Find(&pod.Spec, container); c != nil {
		return c.VolumeMounts[index].Name
	}
	return ""
}

// openBeneath opens a path inside a directory, with the rights of a user if there is one. No symlink leads out of it. What is missing
// is created, step by step, with the volume's own mode and owner, or as that user, if create is set.
func openBeneath(top *os.File, sub string, create bool, as *runas.Identity) (fd int, err error) {
	dir, volume := int(top.Fd()), top.Name()
	var stat unix.Stat_t
	if err := unix.Fstat(dir, &stat); err != nil {
		return -1, err
	}
	if as != nil {
		stat = madeBy(as)
	}
	err = asUser(as, func() (err error) {
		open := beneath(dir)
		fd, err = open(sub)
		if create && errors.Is(err, unix.ENOENT) {
			if err = makeBeneath(open, filepath.Clean(sub), stat); err == nil {
				fd, err = open(sub)
			}
		}
		return err
	})
	if errors.Is(err, unix.EXDEV) {
		return -1, fmt.Errorf("subpath %q not within volume path %q: %w", sub, volume, errdefs.ErrInvalidArgument)
	} else if err != nil {
		return -1, fmt.Errorf("open %s of %s: %w", sub, volume, err)
	}
	return fd, nil
}

// beneath returns a function that opens paths inside an open directory. No symlink leads out of it: that is EXDEV.
func beneath(dir int) func(path string) (int, error) {
	return func(path string) (int, error) {
		return outside.Open(dir, path, unix.RESOLVE_BENEATH)
	}
}

// makeBeneath makes the directories of a path that are missing; open finds what is in the way of symlinks.
func makeBeneath(open func(string) (int, error), sub string, like unix.Stat_t) error {
	top, err := open(".")
	if err != nil {
		return err
	}
	defer unix.Close(top)
	dir, err := untrusted.MakeDirs(top, sub, open, func(dir, _ int) error {
		if err := unix.Fchown(dir, int(like.Uid), int(like.Gid)); err != nil {
			return err
		}
		return unix.Fchmod(dir, like.Mode&0o7777)
	})
	if err != nil {
		return err
	}
	return unix.Close(dir)
}
