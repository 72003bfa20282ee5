package volume

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/runtime/crash"
)

// emptyDir ensures that an emptyDir exists and returns its path: a directory below ROOT that lives as long as the pod,
// or for a medium of memory a mount below STATE, a tmpfs for Memory, a hugetlbfs for HugePages. All users may write to
// it, unless it has another mode (EmptyDirVolumeSource.Mode); with an fsGroup, it and new files in it belong to that group.
func (v *Volumes) emptyDir(pod *corev1.Pod, volume *corev1.Volume) (string, error) {
	medium, parent := volume.EmptyDir.Medium, v.rootPod(string(pod.UID))
	var page int64
	switch {
	case medium == corev1.StorageMediumDefault:
	case medium == corev1.StorageMediumMemory:
		parent = v.statePod(string(pod.UID))
	case isHugePages(medium):
		parent = v.statePod(string(pod.UID))
		var err error
		if page, err = hugePageSize(pod, medium); err != nil {
			return "", err
		}
	default:
		return "", fmt.Errorf("unknown storage medium %q", medium)
	}
	parent = filepath.Join(parent, "volumes", "emptydir")
	if err := os.MkdirAll(parent, 0o711); err != nil {
		return "", err
	}
	dir := filepath.Join(parent, volume.Name)
	mode := uint32(0o777)
	if medium == corev1.StorageMediumMemory {
		mode = 0o1777 // as the kernel makes a tmpfs, and a kubelet leaves it
	}
	if m := volume.EmptyDir.Mode; m != nil {
		mode = uint32(*m)
	}
	group := podFSGroup(pod)
	if group >= 0 {
		mode |= unix.S_ISGID | 0o770 // as a kubelet gives a volume to its group
	}
	if medium == corev1.StorageMediumMemory {
		return dir, mountTmpfs(dir, memorySize(pod, volume.EmptyDir), mode, group)
	}
	if isHugePages(medium) {
		return dir, mountHugePages(dir, page, volume.EmptyDir.SizeLimit, mode, group)
	}
	if _, err := os.Lstat(dir); err == nil {
		return dir, nil
	}
	// Under another name until it is complete: a directory that exists is ready.
	fresh := dir + "~new"
	if err := os.Mkdir(fresh, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	if err := os.Chown(fresh, -1, group); err != nil {
		return "", err
	}
	if err := unix.Chmod(fresh, mode); err != nil {
		return "", err
	}
	crash.At("volume.empty-dir.made")
	return dir, os.Rename(fresh, dir)
}

func podFSGroup(pod *corev1.Pod) int {
	if s := pod.Spec.SecurityContext; s != nil && s.FSGroup != nil {
		return int(*s.FSGroup)
	}
	return -1
}

// memorySize returns the limit of a volume in memory: the lower of its sizeLimit and, where all of the pod's containers
// are limited, what these may use together. 0 stands for the kernel's default: half of the memory.
func memorySize(pod *corev1.Pod, source *corev1.EmptyDirVolumeSource) int64 {
	var size int64
	if source.SizeLimit != nil {
		size = podspec.Amount(*source.SizeLimit)
	}
	var total int64
	for i := range pod.Spec.Containers {
		limit, ok := pod.Spec.Containers[i].Resources.Limits[corev1.ResourceMemory]
		if !ok {
			return size
		}
		total = podspec.Add(total, podspec.Amount(limit))
	}
	if total > 0 && (size == 0 || total < size) {
		return total
	}
	return size
}

func mountTmpfs(dir string, size int64, mode uint32, group int) error {
	if err := makeDir(dir, 0o700, 0o700); err != nil {
		return err
	}
	if mounted, err := isMountPoint(dir); err != nil {
		return err
	} else if mounted && onTmpfs(dir) {
		return nil
	}
	options := fmt.Sprintf("mode=%o", mode)
	if size > 0 {
		options += fmt.Sprintf(",size=%d", size)
	}
	if group >= 0 {
		options += fmt.Sprintf(",gid=%d", group)
	}
	crash.At("volume.tmpfs.before")
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount tmpfs at %s: %w", dir, err)
	}
	crash.At("volume.tmpfs.after")
	return nil
}

// onTmpfs reports whether a directory is in memory, as STATE is where it is below /run.
func onTmpfs(dir string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(dir, &stat) == nil && stat.Type == unix.TMPFS_MAGIC
}
