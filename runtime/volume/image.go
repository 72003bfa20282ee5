package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
)

// Images mounts images for volumes.
type Images interface {
	// Mount mounts the files of an image at a directory, for reading only. The name is that of the volume on this
	// machine; what the image consists of is kept for it until Release.
	Mount(ctx context.Context, name string, image runtime.Image, at string) error
	// Release gives up what Mount keeps, once it is not mounted any more. It is no error if there is nothing.
	Release(ctx context.Context, name string) error
}

// imagePlace makes the directory that an image is going to be mounted at. It is below ROOT: after a reboot it says for
// which volumes an image is still kept.
func (v *Volumes) imagePlace(pod *corev1.Pod, name string) (string, error) {
	at := filepath.Join(v.imagesPod(string(pod.UID)), name)
	return at, os.MkdirAll(at, 0o711)
}

// MountImages ensures that image volumes of a pod are mounted, by their names (PodSpec.Volumes.Image, KEP-4639). It comes
// after SetUp, when the images have been pulled. A volume shows the same image for as long as its pod exists. users is
// the path of the pod's own user namespace.
func (v *Volumes) MountImages(ctx context.Context, pod *corev1.Pod, images map[string]runtime.Image, users string) error {
	for name, image := range images {
		if err := v.mountImage(ctx, pod, name, image, users); err != nil {
			return fmt.Errorf("failed to mount image volume %q: %w", name, err)
		}
	}
	return nil
}

func (v *Volumes) mountImage(ctx context.Context, pod *corev1.Pod, name string, image runtime.Image, users string) error {
	at, err := v.imagePlace(pod, name)
	if err != nil {
		return err
	}
	if mounted, err := isMountPoint(at); err != nil || mounted {
		return err
	}
	if v.node.Images == nil {
		return errors.New("there are no images")
	}
	crash.At("volume.image.before")
	if err := v.node.Images.Mount(ctx, imageVolume(string(pod.UID), name), image, at); err != nil {
		return err
	}
	crash.At("volume.image.after")
	if users == "" {
		return nil
	}
	namespace, err := os.Open(users)
	if err != nil {
		return fmt.Errorf("user namespace: %w", err)
	}
	defer namespace.Close()
	if err := mappable(at, namespace); err != nil {
		return errors.Join(err, unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
	}
	return nil
}

// releaseImages unmounts the image volumes of a pod, and lets their images go.
func (v *Volumes) releaseImages(podUID string) error {
	dir := v.imagesPod(podUID)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := UnmountBelow(dir); err != nil {
		return err
	}
	for _, e := range entries {
		if v.node.Images != nil {
			if err := v.node.Images.Release(context.Background(), imageVolume(podUID, e.Name())); err != nil {
				return err
			}
		}
		crash.At("volume.image.released")
	}
	return nil
}

func (v *Volumes) imagesPod(uid string) string {
	return filepath.Join(v.rootPod(uid), "volumes", "image")
}

// imageVolume names a volume among those of all pods.
func imageVolume(podUID, name string) string { return podUID + "-" + name }

func isImage(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return pod.Spec.Volumes[i].Image != nil
		}
	}
	return false
}
