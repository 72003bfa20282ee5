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
		Columns: volumeColumns(),
		Cells:   volumeCells,
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

// volumeColumns returns the columns of the table that kubectl prints for volumes.
func volumeColumns() []metav1.TableColumnDefinition {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		kind.NameColumn(),
		{Name: "Capacity", Type: "string", Description: spec["capacity"]},
		{Name: "Access Modes", Type: "string", Description: spec["accessModes"]},
		{Name: "Reclaim Policy", Type: "string", Description: spec["persistentVolumeReclaimPolicy"]},
		{Name: "Status", Type: "string", Description: status["phase"]},
		{Name: "Claim", Type: "string", Description: spec["claimRef"]},
		{Name: "StorageClass", Type: "string", Description: "StorageClass of the pv"},
		{Name: "VolumeAttributesClass", Type: "string", Description: "VolumeAttributesClass of the pv"},
		{Name: "Reason", Type: "string", Description: status["reason"]},
		kind.AgeColumn(),
		{Name: "VolumeMode", Type: "string", Priority: 1, Description: spec["volumeMode"]},
	}
}

// volumeCells returns one row of that table.
func volumeCells(pv *corev1.PersistentVolume, now time.Time) []any {
	size, phase, claim := pv.Spec.Capacity[corev1.ResourceStorage], string(pv.Status.Phase), ""
	if pv.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	if ref := pv.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
	}
	return []any{
		pv.Name, size.String(), shortModes(pv.Spec.AccessModes), string(pv.Spec.PersistentVolumeReclaimPolicy), phase,
		claim, volumehelpers.GetPersistentVolumeClass(pv), orUnset(pv.Spec.VolumeAttributesClassName), pv.Status.Reason,
		Age(pv.CreationTimestamp, now), orUnset(pv.Spec.VolumeMode),
	}
}
