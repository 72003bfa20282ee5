package core

// The description of the kind for the server. The rules are in persistent_volume_claim.go.

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		Columns: claimColumns(),
		Cells:   claimCells,
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

// claimColumns returns the columns of the table that kubectl prints for claims.
func claimColumns() []metav1.TableColumnDefinition {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		kind.NameColumn(),
		{Name: "Status", Type: "string", Description: status["phase"]},
		{Name: "Volume", Type: "string", Description: spec["volumeName"]},
		{Name: "Capacity", Type: "string", Description: status["capacity"]},
		{Name: "Access Modes", Type: "string", Description: status["accessModes"]},
		{Name: "StorageClass", Type: "string", Description: "StorageClass of the pvc"},
		{Name: "VolumeAttributesClass", Type: "string", Description: "VolumeAttributesClass of the pvc"},
		kind.AgeColumn(),
		{Name: "VolumeMode", Type: "string", Priority: 1, Description: spec["volumeMode"]},
	}
}

// claimCells returns one row of that table.
func claimCells(claim *corev1.PersistentVolumeClaim, now time.Time) []any {
	phase, capacity, modes := string(claim.Status.Phase), "", ""
	if claim.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	if claim.Spec.VolumeName != "" {
		size := claim.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = size.String(), shortModes(claim.Status.AccessModes)
	}
	return []any{
		claim.Name, phase, claim.Spec.VolumeName, capacity, modes, volumehelpers.GetPersistentVolumeClaimClass(claim),
		orUnset(claim.Spec.VolumeAttributesClassName), Age(claim.CreationTimestamp, now), orUnset(claim.Spec.VolumeMode),
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
