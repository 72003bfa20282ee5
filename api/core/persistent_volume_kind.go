package core

// The description of the kind for the server. The rules are in persistent_volume.go.

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/jobd/jobd/api/kind"
)

// PersistentVolumeKind describes v1 PersistentVolumes.
func PersistentVolumeKind() *kind.Kind {
	return kind.Of[corev1.PersistentVolume, corev1.PersistentVolumeList](kind.Description[*corev1.PersistentVolume]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "PersistentVolume",
		ShortNames:   []string{"pv"},
		Default:      setVolumeDefaults,
		Fields: map[string]func(*corev1.PersistentVolume) string{
			"name": func(pv *corev1.PersistentVolume) string { return pv.Name },
		},
		Table: volumeTable(),
		Rules: kind.Rules[*corev1.PersistentVolume]{
			Create:      func(pv *corev1.PersistentVolume) { PrepareVolume(pv, time.Now()) },
			Update:      prepareVolumeUpdate,
			Check:       validateVolume,
			CheckUpdate: validateVolumeUpdate,
			Warn:        volumeWarnings,
			WarnUpdate:  func(pv, _ *corev1.PersistentVolume) []string { return volumeWarnings(pv) },
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*corev1.PersistentVolume]{
			"status": {
				Update:      prepareVolumeStatusUpdate,
				CheckUpdate: validateVolumeStatusUpdate,
				Reset:       kind.Path("spec"),
			},
		},
	})
}

// volumeTable is what kubectl prints of volumes.
func volumeTable() kind.Columns[*corev1.PersistentVolume] {
	type volume = *corev1.PersistentVolume
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return kind.Columns[volume]{
		kind.NameColumn[volume](),
		{Name: "Capacity", Description: spec["capacity"],
			Cell: func(pv volume, _ time.Time) any { return storageOf(pv.Spec.Capacity) }},
		{Name: "Access Modes", Description: spec["accessModes"],
			Cell: func(pv volume, _ time.Time) any { return shortModes(pv.Spec.AccessModes) }},
		{Name: "Reclaim Policy", Description: spec["persistentVolumeReclaimPolicy"],
			Cell: func(pv volume, _ time.Time) any { return string(pv.Spec.PersistentVolumeReclaimPolicy) }},
		{Name: "Status", Description: status["phase"],
			Cell: func(pv volume, _ time.Time) any { return phaseOf(pv, string(pv.Status.Phase)) }},
		{Name: "Claim", Description: spec["claimRef"],
			Cell: func(pv volume, _ time.Time) any { return claimOf(pv) }},
		{Name: "StorageClass", Description: "StorageClass of the pv",
			Cell: func(pv volume, _ time.Time) any { return volumehelpers.GetPersistentVolumeClass(pv) }},
		{Name: "VolumeAttributesClass", Description: "VolumeAttributesClass of the pv",
			Cell: func(pv volume, _ time.Time) any { return orUnset(pv.Spec.VolumeAttributesClassName) }},
		{Name: "Reason", Description: status["reason"],
			Cell: func(pv volume, _ time.Time) any { return pv.Status.Reason }},
		kind.AgeColumn[volume](),
		{Name: "VolumeMode", Priority: 1, Description: spec["volumeMode"],
			Cell: func(pv volume, _ time.Time) any { return orUnset(pv.Spec.VolumeMode) }},
	}
}

// claimOf returns the claim that has the volume, or may have it: "default/data".
func claimOf(pv *corev1.PersistentVolume) string {
	if ref := pv.Spec.ClaimRef; ref != nil {
		return ref.Namespace + "/" + ref.Name
	}
	return ""
}

// storageOf returns how large a volume is.
func storageOf(amounts corev1.ResourceList) string {
	size := amounts[corev1.ResourceStorage]
	return size.String()
}

// phaseOf returns the phase of a volume or a claim, unless it is being deleted.
func phaseOf(obj metav1.Object, phase string) string {
	if obj.GetDeletionTimestamp() != nil {
		return "Terminating"
	}
	return phase
}
