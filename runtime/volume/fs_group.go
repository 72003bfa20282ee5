package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/runtime/untrusted"
)

// The permissions that a group gets (PodSecurityContext.FSGroup), as from a kubelet.
const (
	groupFile = 0o660
	groupDir  = 0o770 | unix.S_ISGID
)

// giveToGroupOnce is giveToGroup, unless that was done for this pod's volume before: when its set-up is repeated, its
// containers may run, and what they have done to their files since is theirs to decide. In another epoch none of them runs,
// and a power cut may have undone what was done.
func (v *Volumes) giveToGroupOnce(ctx context.Context, pod *corev1.Pod, volume, path string) error {
	if podFSGroup(pod) < 0 {
		return nil
	}
	done := filepath.Join(v.statePod(string(pod.UID)), "volumes", "grouped", volume)
	if in, err := os.ReadFile(done); err == nil && string(in) == v.node.Epoch {
		return nil
	}
	if err := v.giveToGroup(ctx, pod, path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(done), 0o700); err != nil {
		return err
	}
	return os.WriteFile(done, []byte(v.node.Epoch), 0o600)
}

// giveToGroup lets a pod's fsGroup read and write a volume that has outlived other pods: all that is in it belongs to the
// group then. With the policy OnRootMismatch, nothing is done if the volume's own directory belongs to the group already.
func (v *Volumes) giveToGroup(ctx context.Context, pod *corev1.Pod, path string) error {
	group := podFSGroup(pod)
	if group < 0 {
		return nil
	}
	at, err := v.at(path)
	if err != nil {
		return err
	}
	defer at.Close()
	var top unix.Stat_t
	if err := unix.Fstat(int(at.Fd()), &top); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	policy := ptr.Deref(pod.Spec.SecurityContext.FSGroupChangePolicy, corev1.FSGroupChangeAlways)
	if policy == corev1.FSGroupChangeOnRootMismatch && int(top.Gid) == group && top.Mode&groupDir == groupDir {
		return nil
	}
	// The directory itself comes last: only then is the whole tree done.
	err = untrusted.Visit("/proc/self/fd/"+strconv.Itoa(int(at.Fd()))+"/.", func(dir int, name string, _ *unix.Stat_t) error {
		if name == "." || ctx.Err() != nil {
			return ctx.Err()
		}
		return groupOwns(dir, name, group)
	})
	if err == nil {
		err = groupHas(int(at.Fd()), path, group)
	}
	if err != nil {
		return fmt.Errorf("applyFSGroup failed for %s: %w", path, err)
	}
	return nil
}

// groupOwns gives one file to the group. Symlinks are not followed, and nothing is opened but files and directories; what
// is gone meanwhile is no error.
func groupOwns(dir int, name string, group int) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	} else if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	return groupHas(fd, name, group)
}

// groupHas does that with a file that is open (O_PATH).
func groupHas(fd int, name string, group int) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return err
	}
	if int(is.Gid) != group {
		if err := unix.Fchownat(fd, "", -1, group, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return &os.PathError{Op: "chown", Path: name, Err: err}
		}
	}
	mode := is.Mode & 0o7777
	switch is.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= groupDir
	case unix.S_IFLNK:
		return nil
	default:
		if int(is.Gid) != group {
			// As chown(2) does: whoever has made the file must not get a program that runs as another group.
			mode &^= unix.S_ISUID | unix.S_ISGID
		}
		mode |= groupFile
	}
	if mode == is.Mode&0o7777 && int(is.Gid) == group {
		return nil
	}
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode); err != nil {
		return &os.PathError{Op: "chmod", Path: name, Err: err}
	}
	return nil
}
