package volume

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// maxEnvFile is how large a file with variables may be.
const maxEnvFile = 64 << 10

// ReadFile reads a file that a container of the pod has written into an emptyDir. No symlink leads out of the volume,
// and what is no plain file, or a large one, is refused: the pod may write anything there. One that is missing is
// NotFound.
func (v *Volumes) ReadFile(pod *corev1.Pod, volume, path string) ([]byte, error) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(have corev1.Volume) bool { return have.Name == volume })
	if i < 0 || pod.Spec.Volumes[i].EmptyDir == nil {
		return nil, fmt.Errorf("volume %q is no emptyDir: %w", volume, errdefs.ErrInvalidArgument)
	}
	root, err := v.emptyDir(pod, &pod.Spec.Volumes[i])
	if err != nil {
		return nil, err
	}
	dir, err := unix.Open(root, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, filepath.Clean(path), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, // a pipe must not block
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil, errdefs.ErrNotFound
	} else if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is no plain file: %w", errdefs.ErrFailedPrecondition)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxEnvFile+1))
	if len(content) > maxEnvFile {
		return nil, fmt.Errorf("it has more than %d bytes: %w", maxEnvFile, errdefs.ErrOutOfRange)
	}
	return content, err
}
