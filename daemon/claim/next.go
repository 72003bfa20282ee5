package claim

import (
	corev1 "k8s.io/api/core/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/jobd/jobd/api/storageclass"
)

// Decision is what a claim that is not bound yet needs.
type Decision struct {
	// Default is the class that the claim is to name, if it names none and there is a default one. The claim is then
	// to be decided about again.
	Default string
	// Bind is the volume that the claim is to be bound to.
	Bind *corev1.PersistentVolume
	// Provision says that a volume of the class is to be created.
	Provision bool
	// Class is the class of the claim.
	Class Class
	// Event is what is to be said about that; nil for nothing.
	Event *Event
}

// Next decides what a claim that is not bound needs. named is the volume that it names (spec.volumeName), nil if it names
// none or that does not exist. consumer says that there is a pod which uses the claim and could be scheduled.
func Next(c *corev1.PersistentVolumeClaim, named *corev1.PersistentVolume, w *World, consumer bool) Decision {
	if c.Spec.VolumeName != "" {
		return bindNamed(c, named)
	}
	if !volumehelpers.PersistentVolumeClaimHasClass(c) {
		if chosen := storageclass.Default(w.Classes); chosen != nil {
			return Decision{Default: chosen.Name}
		}
	}
	class := w.ClassOf(c)
	waits := class.Delays() && !consumer
	volume, err := match(c, w, class.Delays(), waits)
	switch {
	case err != nil:
		return Decision{Class: class, Event: warning(FailedBinding, "%v", err)}
	case volume != nil:
		return Decision{Class: class, Bind: volume}
	case waits:
		return Decision{Class: class, Event: normal(WaitForFirstConsumer,
			"waiting for first consumer to be created before binding")}
	case class.Name == "":
		return Decision{Event: normal(FailedBinding,
			"no persistent volumes available for this claim and no storage class is set")}
	case class.Storage == nil:
		return Decision{Class: class, Event: warning(ProvisioningFailed, "storageclass.storage.k8s.io %q not found",
			class.Name)}
	case class.Storage.Provisioner == storageclass.NoProvisioner:
		return Decision{Class: class, Event: normal(FailedBinding,
			"no persistent volumes available for this claim, and its storage class creates none")}
	case !class.provides():
		return Decision{Class: class, Event: normal(ExternalProvisioning, "Waiting for a volume to be created either by "+
			"the external provisioner '%s' or manually by the system administrator. If volume creation is delayed, please "+
			"verify that the provisioner is running and correctly registered.", class.Storage.Provisioner)}
	case c.Spec.Selector != nil:
		return Decision{Class: class, Event: warning(ProvisioningFailed,
			"failed to provision volume with StorageClass %q: claim Selector is not supported", class.Storage.Name)}
	}
	d := Decision{Class: class, Provision: true}
	if class.StandsIn {
		d.Event = warning(UnknownStorageClass, "there is no storage class %q: the default class %q provides the volume",
			class.Name, class.Storage.Name)
	}
	return d
}

// bindNamed decides about a claim that names its volume.
func bindNamed(c *corev1.PersistentVolumeClaim, named *corev1.PersistentVolume) Decision {
	switch {
	case named == nil:
		return Decision{Event: normal(FailedBinding, "volume %q does not exist yet", c.Spec.VolumeName)}
	case named.Spec.ClaimRef == nil:
		if err := mismatch(named, c); err != "" {
			return Decision{Event: warning(VolumeMismatch, "Cannot bind to requested volume %q: %s", named.Name, err)}
		}
		return Decision{Bind: named}
	case volumehelpers.IsVolumeBoundToClaim(named, c):
		return Decision{Bind: named}
	}
	return Decision{Event: warning(FailedBinding, "volume %q already bound to a different claim.", named.Name)}
}

// mismatch returns why a volume cannot be what a claim names.
func mismatch(pv *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) string {
	size, has := c.Spec.Resources.Requests[corev1.ResourceStorage], pv.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case pv.DeletionTimestamp != nil:
		return "the volume is marked for deletion \"" + pv.Name + "\""
	case has.Cmp(size) < 0:
		return "requested PV is too small"
	case volumehelpers.GetPersistentVolumeClass(pv) != volumehelpers.GetPersistentVolumeClaimClass(c):
		return "storageClassName does not match"
	case volumehelpers.CheckVolumeModeMismatches(&c.Spec, &pv.Spec):
		return "incompatible volumeMode"
	case !volumehelpers.CheckAccessModes(c, pv):
		return "incompatible accessMode"
	}
	return ""
}

// match returns the volume for a claim: one that is reserved for it, else the smallest that fits. Volumes of a class that
// delays binding have to be for this node. only says that none but a reserved one is of interest.
func match(c *corev1.PersistentVolumeClaim, w *World, delays, only bool) (*corev1.PersistentVolume, error) {
	var candidates []*corev1.PersistentVolume
	for _, pv := range w.Free {
		reserved := pv.Spec.ClaimRef != nil && volumehelpers.IsVolumeBoundToClaim(pv, c)
		if reserved || !only && volumehelpers.CheckAccessModes(c, pv) {
			candidates = append(candidates, pv)
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	var node *corev1.Node
	if delays {
		node = &corev1.Node{}
		node.Labels = w.NodeLabels
	}
	return volumehelpers.FindMatchingVolume(c, candidates, node, nil, false, true)
}

// Lost returns why a claim that was bound is lost, nil if it is not. pv is its volume, nil if that is gone.
func Lost(c *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) *Event {
	switch {
	case c.Spec.VolumeName == "":
		return warning(ClaimLost, "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	case pv == nil:
		return warning(ClaimLost, "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case pv.Spec.ClaimRef != nil && !volumehelpers.IsVolumeBoundToClaim(pv, c):
		return warning(ClaimMisbound, "Two claims are bound to the same volume, this one is bound incorrectly")
	}
	return nil
}
