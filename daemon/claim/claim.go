// Package claim decides what becomes of PersistentVolumeClaims and PersistentVolumes on this machine: which volume a claim
// is bound to, when one is created for it, what is left of a volume when its claim is gone, and whether a pod that uses
// claims may be bound to the node.
//
// Stored objects come in, decisions go out. The functions are pure: whoever calls them writes what they decide, and has
// the volumes created, grown and deleted. The reasons and messages are those of a cluster's controllers and scheduler.
package claim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	volumehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storageclass"
)

// World is what there is besides a claim.
type World struct {
	// Classes are the storage classes.
	Classes []*storagev1.StorageClass
	// Free are the volumes that are not bound to any claim.
	Free []*corev1.PersistentVolume
	// ClassesOfVolumes are the names of classes that volumes have, bound or not.
	ClassesOfVolumes map[string]int
	// NodeLabels are those of the node, which volumes may select.
	NodeLabels map[string]string
	// UnknownWaits says that claims of a class that does not exist wait for it. Otherwise the default class stands in.
	UnknownWaits bool
}

// Event is what people are told about a claim or volume.
type Event struct{ Type, Reason, Message string }

func normal(reason, format string, args ...any) *Event {
	return &Event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

func warning(reason, format string, args ...any) *Event {
	return &Event{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

// Reasons of events, as in a cluster.
const (
	FailedBinding          = "FailedBinding"
	VolumeMismatch         = "VolumeMismatch"
	WaitForFirstConsumer   = "WaitForFirstConsumer"
	ExternalProvisioning   = "ExternalProvisioning"
	Provisioning           = "Provisioning"
	ProvisioningFailed     = "ProvisioningFailed"
	ProvisioningSucceeded  = "ProvisioningSucceeded"
	ClaimLost              = "ClaimLost"
	ClaimMisbound          = "ClaimMisbound"
	VolumeFailedDelete     = "VolumeFailedDelete"
	VolumeResizeFailed     = "VolumeResizeFailed"
	VolumeResizeSuccessful = "VolumeResizeSuccessful"
	// UnknownStorageClass is jobd's own: another class stands in for one that does not exist.
	UnknownStorageClass = "UnknownStorageClass"
	// SizeNotEnforced is jobd's own: pods may write more to a volume than its claim has requested.
	SizeNotEnforced = "SizeNotEnforced"
)

// Class is the class that provides the volumes of a claim.
type Class struct {
	// Name is what the claim says; its volume has the same.
	Name string
	// Storage is the class; nil if there is none.
	Storage *storagev1.StorageClass
	// StandsIn says that it is the default class, in place of one that does not exist.
	StandsIn bool
}

// ClassOf returns the class of a claim.
func (w *World) ClassOf(c *corev1.PersistentVolumeClaim) Class {
	name := volumehelpers.GetPersistentVolumeClaimClass(c)
	if name == "" {
		return Class{}
	}
	i := slices.IndexFunc(w.Classes, func(s *storagev1.StorageClass) bool { return s.Name == name })
	if i >= 0 {
		return Class{Name: name, Storage: w.Classes[i]}
	}
	// A class of volumes that an administrator has made needs no object.
	if chosen := storageclass.Default(w.Classes); chosen != nil && !w.UnknownWaits && w.ClassesOfVolumes[name] == 0 {
		return Class{Name: name, Storage: chosen, StandsIn: true}
	}
	return Class{Name: name}
}

// Delays reports whether volumes of the class are bound and created only for a pod that uses the claim.
func (c Class) Delays() bool {
	return c.Storage != nil &&
		ptr.Deref(c.Storage.VolumeBindingMode, storagev1.VolumeBindingImmediate) == storagev1.VolumeBindingWaitForFirstConsumer
}

// provides reports whether jobd creates volumes of the class.
func (c Class) provides() bool {
	return c.Storage != nil && c.Storage.Provisioner == core.LocalProvisioner
}

// grows reports whether volumes of the class can be expanded.
func (c Class) grows() bool {
	return c.Storage != nil && ptr.Deref(c.Storage.AllowVolumeExpansion, false)
}

// VolumeName returns the name of the volume that is created for a claim.
func VolumeName(claim types.UID) string { return "pvc-" + string(claim) }

// onePod reports whether only one pod at a time may use a claim (PersistentVolumeClaimSpec.AccessModes).
func onePod(c *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(c.Spec.AccessModes, corev1.ReadWriteOncePod)
}
