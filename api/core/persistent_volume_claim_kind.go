package core

// The description of the kind for the server. The rules are in persistent_volume_claim.go.

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/jobd/jobd/api/kind"
)

// PersistentVolumeClaimKind describes v1 PersistentVolumeClaims.
func PersistentVolumeClaimKind() *kind.Kind {
	warn := func(claim, _ *corev1.PersistentVolumeClaim) []string { return claimWarnings(claim) }
	return kind.Of[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](kind.Description[*corev1.PersistentVolumeClaim]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "PersistentVolumeClaim",
		ShortNames:   []string{"pvc"},
		Namespaced:   true,
		Default:      setClaimDefaults,
		Fields: map[string]func(*corev1.PersistentVolumeClaim) string{
			"name": func(claim *corev1.PersistentVolumeClaim) string { return claim.Name },
		},
		Table: claimTable(),
		Rules: kind.Rules[*corev1.PersistentVolumeClaim]{
			Create:      PrepareClaim,
			Update:      prepareClaimUpdate,
			Check:       validateClaim,
			CheckUpdate: validateClaimUpdate,
			Warn:        claimWarnings,
			WarnUpdate:  warn,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*corev1.PersistentVolumeClaim]{
			"status": {
				Update:      prepareClaimStatusUpdate,
				CheckUpdate: validateClaimStatusUpdate,
				Reset:       kind.Path("spec"),
			},
		},
	})
}

// claimTable is what kubectl prints of claims. What a claim has of its volume is shown once it is bound.
func claimTable() kind.Columns[*corev1.PersistentVolumeClaim] {
	type claim = *corev1.PersistentVolumeClaim
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	bound := func(c claim, shown string) string {
		if c.Spec.VolumeName == "" {
			return ""
		}
		return shown
	}
	return kind.Columns[claim]{
		kind.NameColumn[claim](),
		{Name: "Status", Description: status["phase"], Cell: func(c claim, _ time.Time) any { return phaseOf(c, string(c.Status.Phase)) }},
		{Name: "Volume", Description: spec["volumeName"], Cell: func(c claim, _ time.Time) any { return c.Spec.VolumeName }},
		{Name: "Capacity", Description: status["capacity"],
			Cell: func(c claim, _ time.Time) any { return bound(c, storageOf(c.Status.Capacity)) }},
		{Name: "Access Modes", Description: status["accessModes"],
			Cell: func(c claim, _ time.Time) any { return bound(c, shortModes(c.Status.AccessModes)) }},
		{Name: "StorageClass", Description: "StorageClass of the pvc",
			Cell: func(c claim, _ time.Time) any { return volumehelpers.GetPersistentVolumeClaimClass(c) }},
		{Name: "VolumeAttributesClass", Description: "VolumeAttributesClass of the pvc",
			Cell: func(c claim, _ time.Time) any { return orUnset(c.Spec.VolumeAttributesClassName) }},
		kind.AgeColumn[claim](),
		{Name: "VolumeMode", Priority: 1, Description: spec["volumeMode"],
			Cell: func(c claim, _ time.Time) any { return orUnset(c.Spec.VolumeMode) }},
	}
}

// shortModes returns access modes as kubectl shows them, in its order: "RWO,ROX".
func shortModes(modes []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"},
		{corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			out = append(out, m.short)
		}
	}
	return strings.Join(out, ",")
}

func orUnset[T ~string](value *T) string {
	if value == nil {
		return "<unset>"
	}
	return string(*value)
}
