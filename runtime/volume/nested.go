package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/internal/outside"
)

// makeMountPoints makes, in the volumes of jobd's own that a container sees read-only, the places at which it mounts something
// else. Only crun makes them before the volume is read-only, and the shard (its nest.go), but not for every OCI runtime and kernel. A kubelet
// makes them too, as directories only.
func makeMountPoints(pod *corev1.Pod, c *corev1.Container, mounts []specs.Mount) error {
	own := map[string]*corev1.Volume{}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; hasFiles(v) || v.EmptyDir != nil {
			own[v.Name] = v
		}
	}
	type place struct {
		path string // with a slash at its end
		of   int    // which of the mounts
	}
	var places []place
	for i := range mounts {
		places = append(places, place{strings.TrimSuffix(filepath.Clean(mounts[i].Destination), "/") + "/", i})
	}
	slices.SortStableFunc(places, func(a, b place) int { return strings.Compare(a.path, b.path) })
	var around []place // those that a place is below, the nearest last
	for _, at := range places {
		for len(around) > 0 && (at.path == around[len(around)-1].path || !strings.HasPrefix(at.path, around[len(around)-1].path)) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 {
			in := around[len(around)-1]
			if in.of < len(c.VolumeMounts) && isReadOnly(own, &c.VolumeMounts[in.of]) && mounts[at.of].Source != "" {
				below := strings.TrimSuffix(at.path[len(in.path):], "/")
				if err := makeMountPoint(mounts[in.of].Source, below, mounts[at.of].Source); err != nil {
					return fmt.Errorf("container %q: a mount point for %s: %w", c.Name, mounts[at.of].Destination, err)
				}
			}
		}
		around = append(around, at)
	}
	return nil
}

// isReadOnly reports whether a container sees the whole of a volume of jobd's own read-only.
func isReadOnly(own map[string]*corev1.Volume, m *corev1.VolumeMount) bool {
	v := own[m.Name]
	return v != nil && m.SubPath == "" && m.SubPathExpr == "" && (m.ReadOnly || hasFiles(v))
}

// makeMountPoint makes a directory or a file in a volume, whichever is to be mounted there, and those above it.
func makeMountPoint(volume, place, source string) error {
	isDir, err := outside.IsDir(source)
	if err != nil {
		return err
	}
	top, err := os.OpenFile(volume, unix.O_PATH, 0) // one of jobd's own
	if err != nil {
		return err
	}
	defer top.Close()
	if isDir {
		fd, err := openBeneath(top, place, true, nil)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
	if fd, err := openBeneath(top, place, false, nil); err == nil {
		return unix.Close(fd)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := openBeneath(top, filepath.Dir(place), true, nil)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return makeFile("/proc/self/fd/" + strconv.Itoa(dir) + "/" + filepath.Base(place))
}
