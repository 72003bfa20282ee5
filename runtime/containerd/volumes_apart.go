package containerd

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"
	"github.com/cyphar/filepath-securejoin"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime/oci"
)

// keepApart refuses a container in which something is mounted in a volume, or the working directory lies below one, where the OCI
// runtime must make nothing in the volumes (oci.VolumesApart). Symlinks of the image may lead there. Those in volumes need not be looked
// at: what leads through one is in it.
func keepApart(spec *specs.Spec, state string, mounts []mount.Mount) error {
	volumes, err := oci.VolumesApart(spec)
	if len(volumes) == 0 || err != nil {
		return err
	}
	root, err := openImage(state, mounts)
	if err != nil {
		return err
	}
	real := func(place string) (string, error) { return path.Clean("/" + place), nil }
	if root != nil {
		defer root.Close()
		dir := "/proc/self/fd/" + strconv.Itoa(int(root.Fd()))
		real = func(place string) (string, error) {
			joined, err := securejoin.SecureJoin(dir, place)
			return path.Clean("/" + strings.TrimPrefix(joined, dir)), err
		}
	}
	above := map[string]string{} // the volumes, by where they are
	for _, v := range volumes {
		at, err := real(v)
		if err != nil {
			return err
		}
		above[at] = v
	}
	for _, place := range places(spec) {
		at, err := real(place)
		if err != nil {
			return err
		}
		for dir := at; dir != "/"; {
			dir = path.Dir(dir)
			if v, ok := above[dir]; ok {
				return fmt.Errorf("%s is in the volume at %s, where root would have to make it for a user: mount that directory itself, or go "+
					"there in the command: %w", place, v, errdefs.ErrInvalidArgument)
			}
		}
	}
	return nil
}

// places returns all that the OCI runtime makes in a container if it is missing.
func places(spec *specs.Spec) []string {
	all := []string{spec.Process.Cwd}
	for _, m := range spec.Mounts {
		all = append(all, m.Destination)
	}
	if spec.Linux != nil {
		for _, d := range spec.Linux.Devices {
			all = append(all, d.Path)
		}
	}
	return append(all, "/dev/null") // and the others that every container has
}
