package containerd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/layout"
)

// viewOptions are those with which layers are mounted to look at them. What images and tenants have made has setuid programs and
// devices, which must be none to whoever reaches them on the host.
var viewOptions = []string{"ro", "nosuid", "nodev", "noexec"}

// viewAttributes are viewOptions as Fsmount takes them.
const viewAttributes = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// openView opens the root of a file system that shows layers, the first one on top, for reading only. It lasts as long as something of
// it is open, and has no place on the host: mount points below STATE can be named by anybody, since its directories may be passed
// through, and everybody sees in /proc what is mounted where.
func openView(state string, layers, options []string) (*os.File, error) {
	if len(layers) == 1 {
		return openDir(layers[0])
	}
	view, err := detachedView(layers, options)
	if err == nil {
		return view, nil
	}
	view, placed := placedView(state, layers, options)
	if placed != nil {
		return nil, fmt.Errorf("mount layers: %w", errors.Join(err, placed))
	}
	return view, nil
}

// detachedView mounts layers without a place. It needs Linux 6.7, since a parameter has 255 bytes and older ones take all layers as
// one.
func detachedView(layers, options []string) (*os.File, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	for _, option := range append(slices.Clone(options), "ro") {
		if key, value, ok := strings.Cut(option, "="); ok {
			err = unix.FsconfigSetString(fs, key, value)
		} else {
			err = unix.FsconfigSetFlag(fs, option)
		}
		if err != nil {
			return nil, fmt.Errorf("option %s: %w", option, os.NewSyscallError("fsconfig", err))
		}
	}
	for _, layer := range layers {
		if err := unix.FsconfigSetString(fs, "lowerdir+", layer); err != nil {
			return nil, fmt.Errorf("layer %s: %w", layer, os.NewSyscallError("fsconfig", err))
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, os.NewSyscallError("fsconfig", err)
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, viewAttributes)
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	return os.NewFile(uintptr(root), "layers"), nil
}

// viewPrefix begins the names of places of views, in a directory that nobody but root may pass through.
const viewPrefix = "view-"

func viewsDir(state string) string { return filepath.Join(layout.State(state).Containerd(), "mounts") }

// placedView mounts layers for a moment at a place, which older kernels need.
func placedView(state string, layers, options []string) (*os.File, error) {
	if err := os.MkdirAll(viewsDir(state), 0o700); err != nil {
		return nil, err
	}
	place, err := os.MkdirTemp(viewsDir(state), viewPrefix)
	if err != nil {
		return nil, err
	}
	defer os.Remove(place)
	// The kernel takes a page of options. This call makes more of them fit.
	m := mount.Mount{
		Type: "overlay", Source: "overlay", Options: slices.Concat(options, viewOptions, []string{"lowerdir=" + strings.Join(layers, ":")}),
	}
	if err := m.Mount(place); err != nil {
		return nil, err
	}
	defer unix.Unmount(place, unix.MNT_DETACH) // what is open stays
	return openDir(place)
}

// unmountViews removes what a process that was killed while it made a view has left. An older jobd had them in another directory.
func unmountViews(state string) error {
	left, err := filepath.Glob(filepath.Join(viewsDir(state), viewPrefix+"*"))
	older, failed := filepath.Glob(filepath.Join(layout.State(state).Containerd(), "users-*"))
	err = errors.Join(err, failed)
	for _, place := range append(left, older...) {
		if err := unix.Unmount(place, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // nothing is mounted
			return fmt.Errorf("unmount %s: %w", place, err)
		}
		err = errors.Join(err, os.Remove(place))
	}
	return err
}

// overlayLayers returns the layers of an overlay, the writable one first, and the options that do not name them.
func overlayLayers(m mount.Mount) (upper string, lower, options []string) {
	for _, option := range m.Options {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "upperdir":
			upper = value
		case "lowerdir":
			lower = strings.Split(value, ":")
		case "workdir", "volatile", "rw", "ro":
		default:
			options = append(options, option)
		}
	}
	return upper, lower, options
}

// openImage opens the root of the image that a snapshot lies over, which is the content of the snapshot itself while that
// is new. It is nil for an image without layers.
func openImage(state string, mounts []mount.Mount) (*os.File, error) {
	if len(mounts) == 0 {
		return nil, nil
	}
	if mounts[0].Type != "overlay" {
		return openDir(mounts[0].Source)
	}
	_, layers, options := overlayLayers(mounts[0])
	// The lowest layer has nothing of the image (lowestLayers), and lies elsewhere than those of images, whose paths
	// are shortened by what they have in common.
	if len(layers) > 1 {
		layers = layers[:len(layers)-1]
	}
	if len(layers) == 0 {
		return nil, nil
	}
	return openView(state, layers, options)
}

// openRoot opens the root of a container as a snapshot has it.
func openRoot(state string, mounts []mount.Mount) (*os.File, error) {
	if len(mounts) != 1 {
		return nil, fmt.Errorf("a root of %d mounts", len(mounts))
	}
	if mounts[0].Type != "overlay" {
		return openDir(mounts[0].Source)
	}
	upper, layers, options := overlayLayers(mounts[0])
	if upper != "" {
		layers = append([]string{upper}, layers...)
	}
	return openView(state, layers, options)
}

func openDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}
