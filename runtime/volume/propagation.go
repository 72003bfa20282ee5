package volume

import (
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	corev1 "k8s.io/api/core/v1"
)

// propagation returns how mounts spread between the host and a container (VolumeMount.MountPropagation), as an option
// of a mount. Whether the requested one is possible depends on the mount of the host that the path is on.
func propagation(m *corev1.VolumeMount, path string) (string, error) {
	mode := corev1.MountPropagationNone
	if m.MountPropagation != nil {
		mode = *m.MountPropagation
	}
	switch mode {
	case corev1.MountPropagationNone:
		return "rprivate", nil
	case corev1.MountPropagationHostToContainer:
		return "rslave", peers(path, "shared or slave", "shared:", "master:")
	case corev1.MountPropagationBidirectional:
		return "rshared", peers(path, "shared", "shared:")
	}
	return "", fmt.Errorf("mountPropagation %s is not known: %w", mode, errdefs.ErrInvalidArgument)
}

// peers fails unless the mount that a path is on has one of the properties.
func peers(path, what string, properties ...string) error {
	on, err := mountOf(path)
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

// mountOf returns the mount of the host that a path is on.
func mountOf(path string) (*mountinfo.Info, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.ParentsFilter(realPath(path)))
	if err != nil {
		return nil, fmt.Errorf("find the mount of %s: %w", path, err)
	}
	var on *mountinfo.Info
	for _, m := range mounts { // of the longest paths, the last covers the others
		if on == nil || len(m.Mountpoint) >= len(on.Mountpoint) {
			on = m
		}
	}
	if on == nil {
		return nil, fmt.Errorf("path %q is not on a mount: %w", path, errdefs.ErrNotFound)
	}
	return on, nil
}
