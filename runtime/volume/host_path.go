package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/internal/outside"
	"github.com/jobd/jobd/runtime/thread"
)

// HostPaths says which paths of the host the pods of a namespace may mount.
type HostPaths interface {
	// HostPaths returns the list of a namespace, nil if it has none. Without a list, plain reports whether only paths
	// without symlinks are mounted: where a namespace forbids such volumes in general, a pod that still has one may
	// date from a time when there was a list, and may have put the symlinks there itself.
	HostPaths(namespace string) (list *hostpath.List, plain bool, err error)
	// RunAs returns the user as whom the pods of a namespace run, and who has to have access to a path; nil if there is none.
	RunAs(namespace string) (*runas.Identity, error)
}

// hostUser returns the user who has to have access to what a pod mounts of the host; nil if it is whatever the daemon finds.
func (v *Volumes) hostUser(pod *corev1.Pod) (*runas.Identity, error) {
	if v.node.HostPaths == nil {
		return nil, nil
	}
	return v.node.HostPaths.RunAs(pod.Namespace)
}

// OfUser reports whether a pod mounts paths of the host that only its user has access to.
func (v *Volumes) OfUser(pod *corev1.Pod) (bool, error) {
	if !slices.ContainsFunc(pod.Spec.Volumes, func(of corev1.Volume) bool { return of.HostPath != nil }) {
		return false, nil
	}
	id, err := v.hostUser(pod)
	return id != nil, err
}

// asUser calls a function that opens files, with the rights of a user if there is one. A directory that nobody else may enter then
// stays closed, whatever is allowed below it, and root's rights are not needed where a server of NFS does not grant them.
func asUser(id *runas.Identity, fn func() error) error {
	if id == nil {
		return fn()
	}
	return thread.AsUser(id.UID, id.Groups, fn)
}

// hostPath makes a path of the host a volume, as far as the namespace allows that.
func (v *Volumes) hostPath(pod *corev1.Pod, volume *corev1.Volume) (source, error) {
	if v.node.HostPaths != nil {
		list, plain, err := v.node.HostPaths.HostPaths(pod.Namespace)
		if err != nil {
			return source{}, err
		}
		as, err := v.hostUser(pod)
		switch {
		case err != nil:
			return source{}, err
		case list != nil:
			return v.allowedHostPath(pod, volume, list, as)
		case plain, as != nil:
			return v.plainHostPath(pod, volume, as)
		}
	}
	path, err := v.anyHostPath(volume.HostPath)
	return source{path: path}, err
}

// anyHostPath checks that the path is what its type says, creates it where the type asks for that, and refuses what
// belongs to jobd itself. A path without a type that does not exist becomes a directory, as with containerd in a
// cluster.
func (v *Volumes) anyHostPath(source *corev1.HostPathVolumeSource) (string, error) {
	path := filepath.Clean(source.Path)
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("hostPath %q is not absolute: %w", source.Path, errdefs.ErrInvalidArgument)
	}
	if real, err := realPath(path); err != nil {
		return "", fmt.Errorf("hostPath %s: %w", path, err)
	} else if v.own(real) {
		return "", fmt.Errorf("hostPath %s belongs to jobd itself: %w", path, errdefs.ErrPermissionDenied)
	}
	kind := corev1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	info, err := outside.Stat(path)
	exists := err == nil
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return "", err
	}
	switch kind {
	case corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate:
		if !exists {
			return path, makeOnHost(path)
		}
	case corev1.HostPathFileOrCreate:
		if !exists {
			if err := makeFileOnHost(path); err != nil {
				return "", err
			}
			// It may be a dangling symbolic link, in which case no file was made.
			info, err = outside.Stat(path)
			exists = err == nil
		}
	}
	what, err := expected(kind)
	if err != nil {
		return "", err
	} else if what.is != nil && !(exists && what.is(info.Mode())) {
		return "", what.mismatch(path)
	}
	return path, nil
}

type fileKind struct {
	name string
	is   func(fs.FileMode) bool
}

func (k fileKind) mismatch(path string) error {
	return fmt.Errorf("hostPath type check failed: %s is not a %s", path, k.name)
}

func expected(kind corev1.HostPathType) (fileKind, error) {
	switch kind {
	case corev1.HostPathUnset:
		return fileKind{}, nil
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		return fileKind{"directory", fs.FileMode.IsDir}, nil
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		return fileKind{"file", fs.FileMode.IsRegular}, nil
	case corev1.HostPathSocket:
		return fileKind{"socket file", func(m fs.FileMode) bool { return m&fs.ModeSocket != 0 }}, nil
	case corev1.HostPathCharDev:
		return fileKind{"character device", func(m fs.FileMode) bool { return m&fs.ModeCharDevice != 0 }}, nil
	case corev1.HostPathBlockDev:
		isBlock := func(m fs.FileMode) bool { return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0 }
		return fileKind{"block device", isBlock}, nil
	}
	return fileKind{}, fmt.Errorf("%s is an invalid volume type: %w", kind, errdefs.ErrInvalidArgument)
}

// makeFile creates a file unless something of that name exists, which is not opened: others may have put it there.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return f.Close()
}

// makeOnHost makes the directories of a path of the host that are missing.
func makeOnHost(path string) error {
	return onHost(func(open func(string) (int, error)) error { return makeBeneath(open, "."+path, madeBy(nil)) })
}

// makeFileOnHost makes a file in a directory of the host that exists, unless something of that name exists.
func makeFileOnHost(path string) error {
	return onHost(func(open func(string) (int, error)) error { return makeFileBeneath(open, "."+path) })
}

// onHost calls a function with one that opens paths of the host, which are relative to its root.
func onHost(do func(open func(path string) (int, error)) error) error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return do(func(path string) (int, error) { return outside.Open(root, path, unix.RESOLVE_IN_ROOT) })
}

// realPath follows symlinks as far as the path exists. What a process of a user answers for is ErrPermissionDenied.
func realPath(path string) (string, error) {
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		real, err := outside.Real(dir)
		switch {
		case err == nil:
			return filepath.Join(real, rest), nil
		case errors.Is(err, errdefs.ErrPermissionDenied):
			return "", err
		case dir == "/":
			return path, nil
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
