package sandbox

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Files returns the directory with the files of a claim, if jobd has created its volume: what others have put on the host is
// not handed out to whoever has the claim. It implements server.ClaimFiles.
func (c Claims) Files(ctx context.Context, obj *corev1.PersistentVolumeClaim) (string, error) {
	if obj.Status.Phase != corev1.ClaimBound {
		return "", fmt.Errorf(
			"the claim is not bound to a volume yet: its first pod, or the first files that are copied into it, gets it one: %w",
			errdefs.ErrFailedPrecondition,
		)
	}
	pv := &corev1.PersistentVolume{}
	if ok, err := c.get(store.Key(objects.Volumes, "", obj.Spec.VolumeName), pv); err != nil {
		return "", err
	} else if !ok {
		return "", fmt.Errorf("the claim has lost its volume: %w", errdefs.ErrFailedPrecondition)
	}
	switch {
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != obj.UID:
		return "", fmt.Errorf("the claim is not bound to a volume: %w", errdefs.ErrFailedPrecondition)
	case !core.IsProvisioned(pv):
		return "", fmt.Errorf("volume %s was not created by jobd: copy by way of a pod: %w", pv.Name, errdefs.ErrFailedPrecondition)
	case ptr.Deref(pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock:
		return "", fmt.Errorf("volume %s is a block device and has no files: %w", pv.Name, errdefs.ErrFailedPrecondition)
	}
	return c.Attach(ctx, pv.Name, "")
}
