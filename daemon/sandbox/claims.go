package sandbox

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/jobd/jobd/daemon/claim"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/persistent"
	"github.com/jobd/jobd/store"
)

// Claims finds the volumes of PersistentVolumeClaims. It implements volume.Claims.
type Claims struct {
	Objects
	Volumes *persistent.Volumes
}

// Claimed returns the PersistentVolume of a pod's volume. The words of its errors are those of a kubelet.
func (c Claims) Claimed(p *corev1.Pod, volume *corev1.Volume) (*corev1.PersistentVolume, error) {
	name := ""
	if volume.Ephemeral != nil {
		name = ephemeral.VolumeClaimName(p, volume)
	} else {
		name = volume.PersistentVolumeClaim.ClaimName
	}
	obj, pv := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	if ok, err := c.get(claim.Key(p.Namespace, name), obj); err != nil {
		return nil, err
	} else if !ok {
		return nil, oci.NotFound("persistentvolumeclaim", name)
	}
	if volume.Ephemeral != nil && !metav1.IsControlledBy(obj, p) {
		return nil, fmt.Errorf("%s", claim.NotOwner(p.Namespace, name, p.Name))
	}
	if obj.Status.Phase != corev1.ClaimBound {
		return nil, fmt.Errorf("PVC %s/%s is not bound", p.Namespace, name)
	}
	if ok, err := c.get(store.Key(objects.Volumes, "", obj.Spec.VolumeName), pv); err != nil {
		return nil, err
	} else if !ok {
		return nil, oci.NotFound("persistentvolume", obj.Spec.VolumeName)
	}
	if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != obj.UID {
		return nil, fmt.Errorf("PV %s is not bound to PVC %s/%s", pv.Name, p.Namespace, name)
	}
	return pv, nil
}

// Attach makes a volume usable for a pod that jobd has created.
func (c Claims) Attach(ctx context.Context, name, pod string) (string, error) {
	return c.Volumes.Attach(ctx, name, pod)
}

// HoldDevice lets a block device of the host stay what it is for a pod.
func (c Claims) HoldDevice(path, pod string) error { return c.Volumes.HoldDevice(path, pod) }

// Release lets go of the block devices that a pod has.
func (c Claims) Release(pod string) error { return c.Volumes.Release(pod) }
