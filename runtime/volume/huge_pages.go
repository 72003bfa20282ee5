package volume

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/jobd/jobd/internal/quantity"
	"github.com/jobd/jobd/runtime/crash"
)

func isHugePages(medium corev1.StorageMedium) bool {
	return medium == corev1.StorageMediumHugePages ||
		strings.HasPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix))
}

// hugePageSize returns the size in bytes of the pages of a volume: the one that its medium names, which the pod or one
// of its containers has to request, or for HugePages the only one that they request. Errors are worded as the
// kubelet's.
func hugePageSize(pod *corev1.Pod, medium corev1.StorageMedium) (int64, error) {
	wanted := int64(0)
	if size, ok := strings.CutPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix)); ok {
		q, err := quantity.Parse(size)
		if err != nil {
			return 0, err
		}
		wanted = q.Value()
	}
	found := int64(0)
	for name := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
		if !ok {
			continue
		}
		q, err := quantity.Parse(size)
		if err != nil {
			return 0, err
		}
		switch asked := q.Value(); {
		case wanted != 0 && asked != wanted:
		case found != 0 && asked != found:
			return 0, fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
		default:
			found = asked
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages",
			medium)
	}
	return found, nil
}

// mountHugePages mounts a hugetlbfs of pages of that many bytes. A limit is rounded down to whole pages.
func mountHugePages(dir string, page int64, limit *resource.Quantity, mode uint32, group int) error {
	if err := makeDir(dir, 0o700, 0o700); err != nil {
		return err
	}
	mounted, err := isMountPoint(dir)
	if err != nil {
		return err
	}
	if !mounted {
		// The file system does not accept the set-group-ID bit in its options. So the mode of its root is set
		// afterwards, and shows whether it is ready.
		options := fmt.Sprintf("pagesize=%d,mode=0", page)
		if limit != nil && limit.Sign() > 0 {
			options += fmt.Sprintf(",size=%d", limit.Value())
		}
		if group >= 0 {
			options += fmt.Sprintf(",gid=%d", group)
		}
		crash.At("volume.hugetlbfs.before")
		if err := unix.Mount("hugetlbfs", dir, "hugetlbfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return fmt.Errorf("mount hugetlbfs with pages of %d bytes at %s: %w", page, dir, err)
		}
		crash.At("volume.hugetlbfs.after")
	}
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil || stat.Mode&0o7777 != 0 {
		return err
	}
	return unix.Chmod(dir, mode)
}
