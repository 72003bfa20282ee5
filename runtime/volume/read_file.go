package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/untrusted"
)

// maxEnvFile is how large a file with variables may be.
const maxEnvFile = 64 << 10

// Left returns the directory of a pod's emptyDir on disk, if it is still there after the end of the pod.
func (v *Volumes) Left(pod *corev1.Pod, volume *corev1.Volume) (dir string, ok bool) {
	dir = filepath.Join(v.rootPod(string(pod.UID)), "volumes", "emptydir", volume.Name)
	info, err := os.Lstat(dir)
	return dir, err == nil && info.IsDir()
}

// ReadFile reads a file that a container of the pod has written into an emptyDir. No symlink leads out of the volume,
// and anything but a plain file of limited size is refused: the pod may write anything there. A missing file is
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
	content, err := untrusted.Read(root, path, untrusted.Beneath, maxEnvFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errdefs.ErrNotFound
	}
	return content, err
}
