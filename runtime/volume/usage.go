package volume

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/runtime/untrusted"
)

// DiskLimited reports whether a pod has emptyDirs on disk with a limit: the kernel enforces the limits of those in
// memory.
func DiskLimited(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if diskLimited(&pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

func diskLimited(v *corev1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() > 0 &&
		v.EmptyDir.Medium == corev1.StorageMediumDefault
}

// EmptyDirOf returns the name of the emptyDir of a pod that a mount in one of its containers shows, by the mount's root
// in its file system. Empty: it shows none on disk.
func EmptyDirOf(pod *corev1.Pod, mountRoot string) string {
	_, below, ok := strings.Cut(mountRoot, "/"+string(pod.UID)+"/volumes/emptydir/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(below, "/")
	return name
}

// OverLimit measures the emptyDirs of a pod that have a limit and returns a kubelet's message about the first that has
// grown beyond its sizeLimit. Empty: none has. unlinked is what each emptyDir, by its name, uses in files that no
// longer have a name. An error is that of the context.
func (v *Volumes) OverLimit(ctx context.Context, pod *corev1.Pod, unlinked map[string]untrusted.Used) (string, error) {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if !diskLimited(volume) {
			continue
		}
		dir := filepath.Join(v.rootPod(string(pod.UID)), "volumes", "emptydir", volume.Name)
		limit := volume.EmptyDir.SizeLimit
		used, err := untrusted.Usage(ctx, dir)
		if used.Bytes+unlinked[volume.Name].Bytes > podspec.Amount(*limit) {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", volume.Name, limit.String()), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// Usage returns what a pod uses of the disk besides the roots and logs of its containers: its emptyDirs, the files of
// its ConfigMaps, and its own, such as /etc/hosts. The files of Secrets, of the downward API and of projected volumes
// are in memory. It ends with the context, with what was seen until then.
func (v *Volumes) Usage(ctx context.Context, pod *corev1.Pod) (used untrusted.Used, err error) {
	dirs := []string{filepath.Join(v.rootPod(string(pod.UID)), "volumes", "emptydir"), v.ownFiles(string(pod.UID))}
	for i := range pod.Spec.Volumes {
		if volume := &pod.Spec.Volumes[i]; volume.ConfigMap != nil {
			dir, _ := v.filesDir(pod, volume)
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		files, err := untrusted.Usage(ctx, dir)
		used.Bytes += files.Bytes
		used.Inodes += files.Inodes
		if err != nil {
			return used, err
		}
	}
	return used, nil
}

// InMemory returns how many bytes of memory the files take that jobd has written for a pod: those of Secrets, of the downward API and of
// projected volumes. No control group of the pod counts them.
func (v *Volumes) InMemory(ctx context.Context, pod *corev1.Pod) (bytes int64, err error) {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if !hasFiles(volume) {
			continue
		}
		dir, inMemory := v.filesDir(pod, volume)
		if !inMemory {
			continue
		}
		files, err := untrusted.Usage(ctx, dir)
		bytes += files.Bytes
		if err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}
