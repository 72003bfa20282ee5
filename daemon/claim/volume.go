package claim

import (
	corev1 "k8s.io/api/core/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/jobd/jobd/api/core"
)

// Fate is what becomes of a volume.
type Fate struct {
	Phase corev1.PersistentVolumePhase
	// Message says why the phase is Failed.
	Message string
	// Delete says that its data is to be deleted, and then the volume.
	Delete bool
	// Event is what is to be said about it; nil for nothing.
	Event *Event
}

// FateOf decides what becomes of a volume. owner is the claim that its claimRef names, nil if there is none of that name.
func FateOf(pv *corev1.PersistentVolume, owner *corev1.PersistentVolumeClaim) Fate {
	ref := pv.Spec.ClaimRef
	switch {
	case ref == nil:
		return Fate{Phase: corev1.VolumeAvailable}
	case ref.UID == "": // it is reserved for a claim that has not been bound to it yet
		return Fate{Phase: corev1.VolumeAvailable}
	case owner != nil && owner.UID == ref.UID && (owner.Spec.VolumeName == pv.Name || owner.Spec.VolumeName == ""):
		if owner.Spec.VolumeName == "" {
			return Fate{Phase: pv.Status.Phase}
		}
		return Fate{Phase: corev1.VolumeBound}
	case pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return Fate{Phase: corev1.VolumeReleased}
	case core.IsProvisioned(pv):
		return Fate{Phase: corev1.VolumeReleased, Delete: true}
	}
	message := "error getting deleter volume plugin for volume \"" + pv.Name + "\": no deletable volume plugin matched"
	return Fate{Phase: corev1.VolumeFailed, Message: message, Event: warning(VolumeFailedDelete, "%s", message)}
}

// ForThisNode reports whether pods on this node can use a volume.
func ForThisNode(pv *corev1.PersistentVolume, labels map[string]string) bool {
	return volumehelpers.CheckNodeAffinity(pv, labels) == nil
}

// Growth is what a claim needs whose requested size has changed.
type Growth struct {
	// To is the size in bytes that the volume is to have; 0: it is large enough.
	To int64
	// Event says why it cannot grow; nil if it can.
	Event *Event
}

// GrowthOf decides about the requested size of a bound claim (RecoverVolumeExpansionFailure: a size that could not be had may
// be taken back).
func GrowthOf(c *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, class Class) Growth {
	want, has := c.Spec.Resources.Requests[corev1.ResourceStorage], pv.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case want.Cmp(has) <= 0:
		return Growth{}
	case !core.IsProvisioned(pv) || !class.grows():
		return Growth{Event: warning(VolumeResizeFailed,
			"only volumes that jobd has created can be expanded, and only if their storage class allows it")}
	}
	return Growth{To: want.Value()}
}
