package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/persistent"
)

// nfs mounts an export of a server at a place of the pod's own. An fsGroup does not apply to it, as with a kubelet.
func (v *Volumes) nfs(
	ctx context.Context, pod *corev1.Pod, name string, from *corev1.NFSVolumeSource, options []string,
) (source, error) {
	at := filepath.Join(v.nfsPod(string(pod.UID)), name)
	crash.At("volume.nfs.before")
	err := persistent.MountNFS(ctx, persistent.NFS{
		Server: from.Server, Path: from.Path, ReadOnly: from.ReadOnly, Options: options,
	}, at)
	crash.At("volume.nfs.after")
	return source{path: at, readOnly: from.ReadOnly}, err
}

// nfsOptions returns the options that a PersistentVolume is mounted with.
func nfsOptions(pv *corev1.PersistentVolume) []string {
	options := pv.Spec.MountOptions
	if old := pv.Annotations[corev1.MountOptionAnnotation]; old != "" {
		options = append(strings.Split(old, ","), options...)
	}
	return options
}

// releaseNFS unmounts what a pod has from servers, which need not answer any more.
func (v *Volumes) releaseNFS(podUID string) error {
	dir := v.nfsPod(podUID)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, persistent.UnmountNFS(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}

func (v *Volumes) nfsPod(uid string) string { return filepath.Join(v.statePod(uid), "volumes", "nfs") }
