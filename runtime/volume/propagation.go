package volume

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// propagation returns how mounts spread between the host and a container (VolumeMount.MountPropagation), as an option
// of a mount. Whether the requested one is possible depends on the mount of the host that the path is on.
func propagation(m *corev1.VolumeMount, path string, host *hostMounts) (string, error) {
	mode := corev1.MountPropagationNone
	if m.MountPropagation != nil {
		mode = *m.MountPropagation
	}
	switch mode {
	case corev1.MountPropagationNone:
		return "rprivate", nil
	case corev1.MountPropagationHostToContainer:
		return "rslave", host.peers(path, "shared or slave", "shared:", "master:")
	case corev1.MountPropagationBidirectional:
		return "rshared", host.peers(path, "shared", "shared:")
	}
	return "", fmt.Errorf("mountPropagation %s is not known: %w", mode, errdefs.ErrInvalidArgument)
}

// spreads reports whether a container of the pod wants mounts of a volume to spread between the host and itself.
func spreads(pod *corev1.Pod, volume string) bool {
	for c := range podspec.Containers(&pod.Spec) {
		for i := range c.VolumeMounts {
			if m := &c.VolumeMounts[i]; m.Name == volume && m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
				return true
			}
		}
	}
	return false
}

// hostMounts finds the mounts of the host that paths are on. All of them are read once, for the first path: there may be many
// thousands, and as many paths.
type hostMounts struct {
	list  func(mountinfo.FilterFunc) ([]*mountinfo.Info, error)
	at    map[string]*mountinfo.Info // by the place, that which covers the others
	found map[string]*mountinfo.Info // by the path
}

func newHostMounts(list func(mountinfo.FilterFunc) ([]*mountinfo.Info, error)) *hostMounts {
	return &hostMounts{list: list, found: map[string]*mountinfo.Info{}}
}

// peers fails unless the mount that a path is on has one of the properties.
func (h *hostMounts) peers(path, what string, properties ...string) error {
	on, err := h.of(path)
	if err != nil {
		return err
	}
	for _, property := range properties {
		if strings.Contains(on.Optional, property) {
			return nil
		}
	}
	return fmt.Errorf("path %q is mounted on %q but it is not a %s mount", path, on.Mountpoint, what)
}

// of returns the mount of the host that a path is on.
func (h *hostMounts) of(path string) (*mountinfo.Info, error) {
	if on := h.found[path]; on != nil {
		return on, nil
	}
	if h.at == nil {
		mounts, err := h.list(nil)
		if err != nil {
			return nil, fmt.Errorf("find the mount of %s: %w", path, err)
		}
		h.at = make(map[string]*mountinfo.Info, len(mounts))
		for _, m := range mounts { // in the order of mounting
			h.at[m.Mountpoint] = m
		}
	}
	// Where something is mounted is found first, without a look at it: a server of NFS may be silent.
	in, err := realPath(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("find the mount of %s: %w", path, err)
	}
	at := filepath.Join(in, filepath.Base(path))
	if h.at[at] == nil {
		if at, err = realPath(path); err != nil {
			return nil, fmt.Errorf("find the mount of %s: %w", path, err)
		}
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if on := h.at[dir]; on != nil {
			h.found[path] = on
			return on, nil
		}
		if dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("path %q is not on a mount: %w", path, errdefs.ErrNotFound)
		}
	}
}

// restrictions returns, as options of a mount, what is forbidden on the mount of the host that a path is on. OCI runtimes do not keep
// it: crun sets exactly the options that it is told.
func (h *hostMounts) restrictions(path string) (options []string, err error) {
	on, err := h.of(path)
	if err != nil {
		return nil, err
	}
	for option := range strings.SplitSeq(on.Options, ",") {
		if slices.Contains([]string{"ro", "nosuid", "nodev", "noexec"}, option) {
			options = append(options, option)
		}
	}
	return options, nil
}
