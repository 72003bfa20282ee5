package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/podspec"
)

// maxContainers is how many containers a pod may have in all. What happens to one of them is looked at beside all others. A cluster has
// no bound here.
const maxContainers = 256

// boundContainers refuses more.
func boundContainers(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	n := len(spec.InitContainers) + len(spec.Containers) + len(spec.EphemeralContainers)
	if n <= maxContainers {
		return nil
	}
	return field.ErrorList{field.TooMany(path.Child("containers"), n, maxContainers)}
}

// MaxHostMounts is how many mounts of the host a pod may need. Each container that starts, of any pod, copies all mounts of the
// host first, and the kernel takes 100,000 (fs.mount-max). A cluster has no bound here, and nodes that become slow.
const MaxHostMounts = 256

// boundMounts refuses a pod that needs more mounts of the host than that: one for each volume that is not made of files, and one for
// each subPath.
func boundMounts(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	mounts := 0
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		inMemory := v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumDefault
		if inMemory || v.HostPath != nil || v.Image != nil || v.NFS != nil || v.CSI != nil || v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			mounts++
		}
	}
	for c := range podspec.Containers(spec) {
		for i := range c.VolumeMounts {
			if m := &c.VolumeMounts[i]; m.SubPath != "" || m.SubPathExpr != "" {
				mounts++
			}
		}
	}
	if mounts <= MaxHostMounts {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("volumes"), field.OmitValueType{},
		fmt.Sprintf("must not need more than %d mounts, and need %d: "+
			"one for each volume in memory, path of the host, claim, image and share, and one for each volumeMount with a subPath", MaxHostMounts, mounts))}
}
