package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/internal/outside"
)

// allowedHostPath mounts a path that the namespace lists at a place of the pod's own. Pods may change what lies below a
// listed path at any time, so it is opened beneath the listed one, and what was opened is what is mounted. The listed
// path itself may contain no symlink at all, as it may lie below a path that other pods can write to. If the pod runs as a user of
// the host, that user opens it.
func (v *Volumes) allowedHostPath(pod *corev1.Pod, volume *corev1.Volume, list *hostpath.List, as *runas.Identity) (source, error) {
	path := filepath.Clean(volume.HostPath.Path)
	allowed, ok := list.Find(path)
	if !ok {
		return source{}, fmt.Errorf("hostPath %s is not among the paths that the namespace allows: %s: %w",
			path, list, errdefs.ErrPermissionDenied)
	}
	var file *os.File
	err := asUser(as, func() (err error) {
		file, err = openAllowed(allowed, path, volume.HostPath.Type, as)
		return err
	})
	if err != nil {
		return source{}, err
	}
	defer file.Close()
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
	if err != nil {
		return source{}, err
	}
	if v.own(real) || v.holdsOwn(real) {
		return source{}, fmt.Errorf("hostPath %s belongs to jobd itself, or something of it is below: %w",
			path, errdefs.ErrPermissionDenied)
	}
	target, err := v.showHostPath(pod, volume, file)
	if err != nil {
		return source{}, err
	}
	if allowed.ReadOnly { // set this early, or else a missing subPath would be created
		attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, attributes); err != nil {
			return source{}, fmt.Errorf("mount hostPath %s for reading only: %w", path, err)
		}
	}
	return source{path: target, allReadOnly: allowed.ReadOnly}, nil
}

// plainHostPath mounts a path of the host in which there is no symlink, at a place of the pod's own as allowedHostPath
// does: other pods may be able to change what the path leads through.
func (v *Volumes) plainHostPath(pod *corev1.Pod, volume *corev1.Volume, as *runas.Identity) (source, error) {
	path := filepath.Clean(volume.HostPath.Path)
	if path == "/" {
		return source{path: path}, nil
	}
	if v.own(path) {
		return source{}, fmt.Errorf("hostPath %s belongs to jobd itself: %w", path, errdefs.ErrPermissionDenied)
	}
	var file *os.File
	err := asUser(as, func() (err error) {
		file, err = openPlain(path, volume.HostPath.Type, as)
		return err
	})
	if errors.Is(err, unix.ELOOP) {
		return source{}, fmt.Errorf("there is a symlink in hostPath %s, and its namespace forbids such volumes "+
			"(pod-security.kubernetes.io/enforce): the pod has to name the path that it leads to: %w", path, errdefs.ErrPermissionDenied)
	} else if err != nil {
		return source{}, err
	}
	defer file.Close()
	target, err := v.showHostPath(pod, volume, file)
	return source{path: target}, err
}

// showHostPath ensures that an open file of the host is mounted at a place of the pod's own, and returns that place.
func (v *Volumes) showHostPath(pod *corev1.Pod, volume *corev1.Volume, file *os.File) (string, error) {
	target := filepath.Join(v.statePod(string(pod.UID)), "host-paths", volume.Name)
	if err := v.show(pod, volume.Name, int(file.Fd()), target); err != nil {
		return "", fmt.Errorf("mount hostPath %s: %w", file.Name(), err)
	}
	return target, nil
}

// openPlain opens a path as openAllowed does, but without a list. A symlink in it is ELOOP.
func openPlain(path string, kind *corev1.HostPathType, as *runas.Identity) (*os.File, error) {
	host, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(host)
	open := func(sub string) (int, error) {
		return outside.Open(host, sub, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	}
	return openBelow(hostpath.Allowed{Path: "/"}, host, open, path, kind, as)
}

// openAllowed finds a path at or below a listed one, creates it where its type asks for that and it may be written to, and
// checks that it is what the type says. It is not opened for reading or writing.
func openAllowed(listed hostpath.Allowed, path string, kind *corev1.HostPathType, as *runas.Identity) (*os.File, error) {
	top, err := openListed(listed.Path)
	if err != nil {
		return nil, fmt.Errorf("hostPath %s: %w", path, err)
	}
	defer unix.Close(top)
	return openBelow(listed, top, beneath(top), path, kind, as)
}

// openBelow does what openAllowed does, for a listed path that is open already and a function that opens paths below
// it.
func openBelow(
	listed hostpath.Allowed, top int, open func(string) (int, error), path string, kind *corev1.HostPathType, as *runas.Identity,
) (*os.File, error) {
	what, err := expected(ptr.Deref(kind, corev1.HostPathUnset))
	if err != nil {
		return nil, err
	}
	sub, err := filepath.Rel(listed.Path, path)
	if err != nil {
		return nil, err
	}
	var fd int
	if sub == "." { // which may be a file
		fd, err = unix.FcntlInt(uintptr(top), unix.F_DUPFD_CLOEXEC, 0)
	} else {
		fd, err = open(sub)
	}
	if errors.Is(err, unix.ENOENT) && !listed.ReadOnly {
		fd, err = makeAllowed(open, sub, ptr.Deref(kind, corev1.HostPathUnset), as)
	}
	switch {
	case errors.Is(err, unix.EXDEV):
		return nil, fmt.Errorf("hostPath %s leads out of %s, which the namespace allows: %w",
			path, listed.Path, errdefs.ErrPermissionDenied)
	case what.is != nil && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)):
		return nil, what.mismatch(path)
	case err != nil:
		return nil, fmt.Errorf("hostPath %s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	info, err := file.Stat()
	if err == nil && what.is != nil && !what.is(info.Mode()) {
		err = what.mismatch(path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// openListed finds a path that a namespace lists, which must exist.
func openListed(listed string) (int, error) {
	host, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(host)
	fd, err := outside.Open(host, strings.TrimPrefix(listed, "/"), unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, unix.ELOOP) {
		return -1, fmt.Errorf("the namespace allows %s, but there is a symlink in that path: "+
			"the namespace has to name the path that it leads to: %w", listed, errdefs.ErrFailedPrecondition)
	} else if err != nil {
		return -1, fmt.Errorf("open %s, which the namespace allows: %w", listed, err)
	}
	return fd, nil
}

// makeAllowed creates what is missing of a path if the type asks for that: directories that belong to root, or the user who opens
// them, and that all may read, or a file in a directory that exists. Then it opens the path.
func makeAllowed(open func(string) (int, error), sub string, kind corev1.HostPathType, as *runas.Identity) (int, error) {
	var err error
	switch kind {
	case corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate:
		err = makeBeneath(open, sub, madeBy(as))
	case corev1.HostPathFileOrCreate:
		err = makeFileBeneath(open, sub)
	default:
		err = unix.ENOENT
	}
	if err != nil {
		return -1, err
	}
	return open(sub)
}

// madeBy returns the owner and mode of the directories that are created.
func madeBy(as *runas.Identity) unix.Stat_t {
	made := unix.Stat_t{Mode: 0o755}
	if as != nil {
		made.Uid, made.Gid = as.UID, as.Groups[0]
	}
	return made
}

// makeFileBeneath creates a file in a directory that exists, unless something of that name exists there.
func makeFileBeneath(open func(string) (int, error), sub string) error {
	dir, err := open(filepath.Dir(sub))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, filepath.Base(sub), unix.O_CREAT|unix.O_EXCL|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if errors.Is(err, unix.EEXIST) {
		return nil
	} else if err != nil {
		return err
	}
	return unix.Close(fd)
}
