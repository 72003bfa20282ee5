package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// makeMountPoints makes, in the volumes of jobd's own that a container sees read-only, the places at which it mounts something
// else. Only crun makes them before the volume is read-only. A kubelet makes them too, as directories only.
func makeMountPoints(pod *corev1.Pod, c *corev1.Container, mounts []specs.Mount) error {
	for i := range c.VolumeMounts {
		if m := &c.VolumeMounts[i]; m.SubPath != "" || m.SubPathExpr != "" || !isOwnReadOnly(pod, m) {
			continue
		}
		for j := range mounts {
			place, below := strings.CutPrefix(filepath.Clean(mounts[j].Destination), filepath.Clean(mounts[i].Destination)+"/")
			if !below || mounts[j].Source == "" {
				continue
			}
			if err := makeMountPoint(mounts[i].Source, place, mounts[j].Source); err != nil {
				return fmt.Errorf("container %q: a mount point for %s: %w", c.Name, mounts[j].Destination, err)
			}
		}
	}
	return nil
}

func isOwnReadOnly(pod *corev1.Pod, m *corev1.VolumeMount) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == m.Name {
			return hasFiles(v) || v.EmptyDir != nil && m.ReadOnly
		}
	}
	return false
}

// makeMountPoint makes a directory or a file in a volume, whichever is to be mounted there, and those above it.
func makeMountPoint(volume, place, source string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		fd, err := openBeneath(volume, place, true, nil)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
	if fd, err := openBeneath(volume, place, false, nil); err == nil {
		return unix.Close(fd)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := openBeneath(volume, filepath.Dir(place), true, nil)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return makeFile("/proc/self/fd/" + strconv.Itoa(dir) + "/" + filepath.Base(place))
}
