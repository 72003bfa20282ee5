package core

import (
	"fmt"
	"iter"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	volumehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// LocalProvisioner is the provisioner of the volumes that jobd itself creates, below its root directory.
const LocalProvisioner = "jobd.dev/local"

var reclaimPolicies = []corev1.PersistentVolumeReclaimPolicy{
	corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain,
}

// setVolumeDefaults fills in what the manifest of a volume left out.
func setVolumeDefaults(pv *corev1.PersistentVolume) {
	setDefault(&pv.Status.Phase, corev1.VolumePending)
	setDefault(&pv.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	if pv.Spec.VolumeMode == nil {
		pv.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	}
	if h := pv.Spec.HostPath; h != nil && h.Type == nil {
		h.Type = ptr.To(corev1.HostPathUnset)
	}
	roundResources(pv.Spec.Capacity)
}

// PrepareVolume brings a new volume into the form that is stored: Pending, and kept while it is bound to a claim.
func PrepareVolume(pv *corev1.PersistentVolume, now time.Time) {
	pv.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: since(now)}
	if !slices.Contains(pv.Finalizers, VolumeProtection) {
		pv.Finalizers = append(pv.Finalizers, VolumeProtection)
	}
}

func prepareVolumeUpdate(pv, old *corev1.PersistentVolume) { pv.Status = old.Status }

// prepareVolumeStatusUpdate keeps the spec, and records when the phase changed.
func prepareVolumeStatusUpdate(pv, old *corev1.PersistentVolume) {
	pv.Spec = old.Spec
	at := &pv.Status.LastPhaseTransitionTime
	switch changed := pv.Status.Phase != old.Status.Phase; {
	case !changed && *at == nil:
		*at = old.Status.LastPhaseTransitionTime
	case changed && (*at == nil || (*at).Equal(old.Status.LastPhaseTransitionTime)):
		*at = since(time.Now())
	}
}

func validateVolume(pv *corev1.PersistentVolume) field.ErrorList {
	errs := validation.ValidateObjectMeta(&pv.ObjectMeta, false, validation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	spec, at := &pv.Spec, field.NewPath("spec")
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(at.Child("accessModes"), ""))
	}
	errs = append(errs, validateAccessModes(spec.AccessModes, at.Child("accessModes"))...)
	errs = append(errs, validateVolumeCapacity(spec.Capacity, at.Child("capacity"))...)
	errs = append(errs, validateReclaimPolicy(spec, at.Child("persistentVolumeReclaimPolicy"))...)
	if a := spec.NodeAffinity; a != nil {
		errs = append(errs, validateVolumeAffinity(a, at.Child("nodeAffinity"))...)
	}
	errs = append(errs, validateVolumeOrigin(pv, at)...)
	if spec.StorageClassName != "" {
		errs = append(errs, invalid(at.Child("storageClassName"), spec.StorageClassName,
			utilvalidation.IsDNS1123Subdomain(spec.StorageClassName))...)
	}
	if spec.VolumeMode != nil {
		errs = append(errs, oneOf(at.Child("volumeMode"), *spec.VolumeMode, volumeModes)...)
	}
	if spec.VolumeAttributesClassName != nil {
		errs = append(errs, unsupportedField(at.Child("volumeAttributesClassName"), noAttributeClasses))
	}
	mounted := spec.NFS != nil || ForeignVolume(&spec.PersistentVolumeSource) != ""
	if _, ok := pv.Annotations[corev1.MountOptionAnnotation]; ok && !mounted {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations", corev1.MountOptionAnnotation),
			"may not specify mount options for this volume type"))
	}
	if len(spec.MountOptions) > 0 && !mounted {
		errs = append(errs, field.Forbidden(at.Child("mountOptions"),
			"jobd does not support this: only volumes of the type nfs are mounted with options"))
	}
	return errs
}

func validateVolumeCapacity(capacity corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(capacity) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	if _, ok := capacity[corev1.ResourceStorage]; !ok || len(capacity) > 1 {
		errs = append(errs, field.NotSupported(path, capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range sortedKeys(capacity) {
		amount, path := capacity[name], path.Key(string(name))
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(path, amount.Value(), "must be a valid resource quantity"))
		}
		errs = append(errs, positive(amount, path)...)
	}
	return errs
}

func validateReclaimPolicy(spec *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	switch policy := spec.PersistentVolumeReclaimPolicy; policy {
	case "":
		return nil
	case corev1.PersistentVolumeReclaimRecycle:
		return field.ErrorList{field.Forbidden(path,
			"jobd does not support this: Recycle is deprecated; use Retain, or claims of a storage class")}
	default:
		return oneOf(path, policy, append(reclaimPolicies, corev1.PersistentVolumeReclaimRecycle))
	}
}

func validateVolumeAffinity(a *corev1.VolumeNodeAffinity, path *field.Path) field.ErrorList {
	if a.Required == nil {
		return field.ErrorList{field.Required(path.Child("required"), "must specify required node constraints")}
	}
	var errs field.ErrorList
	terms := path.Child("required", "nodeSelectorTerms")
	if len(a.Required.NodeSelectorTerms) == 0 {
		errs = append(errs, field.Required(terms, "must have at least one node selector term"))
	}
	for i := range a.Required.NodeSelectorTerms {
		errs = append(errs, validateNodeTerm(&a.Required.NodeSelectorTerms[i], terms.Index(i))...)
	}
	return errs
}

// validateVolumeOrigin checks where a volume is: on this machine or on a server for NFS.
func validateVolumeOrigin(pv *corev1.PersistentVolume, at *field.Path) field.ErrorList {
	one, s := exactlyOne{path: at, what: "volume"}, &pv.Spec.PersistentVolumeSource
	one.member("hostPath", s.HostPath != nil, func(at *field.Path) field.ErrorList {
		return validateHostPath(s.HostPath, at)
	})
	one.member("nfs", s.NFS != nil, func(at *field.Path) field.ErrorList { return validateNFS(s.NFS, at) })
	one.member("local", s.Local != nil, func(at *field.Path) field.ErrorList {
		if s.Local.Path == "" {
			return field.ErrorList{field.Required(at.Child("path"), "")}
		}
		errs := noBacksteps(at.Child("path"), s.Local.Path)
		if !path.IsAbs(s.Local.Path) {
			errs = append(errs, field.Invalid(at.Child("path"), s.Local.Path, "must be an absolute path"))
		}
		if s.Local.FSType != nil {
			errs = append(errs, field.Forbidden(at.Child("fsType"),
				"jobd does not support this: it makes no file systems on devices of the host; mount it and name the directory"))
		}
		return errs
	})
	if s.Local != nil && pv.Spec.NodeAffinity == nil && !IsProvisioned(pv) {
		one.errs = append(one.errs, field.Required(at.Child("nodeAffinity"), "Local volume requires node affinity"))
	}
	for name := range foreignSources(s) {
		one.member(name, true, func(at *field.Path) field.ErrorList {
			if name != "csi" {
				return nil
			}
			return append(required(at.Child("driver"), s.CSI.Driver), required(at.Child("volumeHandle"), s.CSI.VolumeHandle)...)
		})
	}
	return one.result()
}

// foreignSources yields the sources of a volume that this machine has no driver for, by their names in the API. A volume with one
// is taken, as by a cluster without that driver: a claim that is meant for it must not get another, empty one. What uses it waits.
func foreignSources(s *corev1.PersistentVolumeSource) iter.Seq[string] {
	return func(yield func(string) bool) {
		sources := reflect.ValueOf(s).Elem()
		for i := range sources.NumField() {
			name, _, _ := strings.Cut(sources.Type().Field(i).Tag.Get("json"), ",")
			if name == "hostPath" || name == "nfs" || name == "local" || sources.Field(i).IsNil() {
				continue
			}
			if !yield(name) {
				return
			}
		}
	}
}

// ForeignVolume says of which type a volume is that this machine has no driver for; empty if it has.
func ForeignVolume(s *corev1.PersistentVolumeSource) string {
	for name := range foreignSources(s) {
		if name == "csi" {
			name += ", driver " + s.CSI.Driver
		}
		return name
	}
	return ""
}

// IsProvisioned reports whether jobd itself has created a volume for a claim.
func IsProvisioned(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[volumehelpers.AnnDynamicallyProvisioned] == LocalProvisioner
}

// validateNFS checks where a volume on a server for NFS is.
func validateNFS(nfs *corev1.NFSVolumeSource, at *field.Path) field.ErrorList {
	errs := required(at.Child("server"), nfs.Server)
	errs = append(errs, required(at.Child("path"), nfs.Path)...)
	if !path.IsAbs(nfs.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), nfs.Path, "must be an absolute path"))
	}
	return errs
}

// validateVolumeUpdate checks a changed volume. Where it is and its mode cannot change, nor which nodes can use it once
// that has been set.
func validateVolumeUpdate(pv, old *corev1.PersistentVolume) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&pv.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateVolume(pv)...)
	now, was := pv.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource
	if !equality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			"spec.persistentvolumesource is immutable after creation\n"+diff.Diff(was, now)))
	}
	errs = append(errs, validation.ValidateImmutableField(pv.Spec.VolumeMode, old.Spec.VolumeMode,
		field.NewPath("volumeMode"))...)
	if was := old.Spec.NodeAffinity; was != nil && !equality.Semantic.DeepEqual(pv.Spec.NodeAffinity, was) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), pv.Spec.NodeAffinity,
			validation.FieldImmutableErrorMsg+", except for updating from beta label to GA"))
	}
	if old.Annotations[volumehelpers.AnnDynamicallyProvisioned] == LocalProvisioner && !IsProvisioned(pv) {
		errs = append(errs, field.Forbidden(
			field.NewPath("metadata", "annotations").Key(volumehelpers.AnnDynamicallyProvisioned),
			"jobd finds the volumes that it has created by this annotation"))
	}
	return errs
}

func validateVolumeStatusUpdate(pv, old *corev1.PersistentVolume) field.ErrorList {
	return validation.ValidateObjectMetaUpdate(&pv.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
}

// volumeWarnings returns the warnings for an accepted volume.
func volumeWarnings(pv *corev1.PersistentVolume) []string {
	var out []string
	if _, ok := pv.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		out = append(out, classAnnotationWarning())
	}
	if _, ok := pv.Annotations[corev1.MountOptionAnnotation]; ok {
		out = append(out, field.NewPath("metadata", "annotations").Key(corev1.MountOptionAnnotation).String()+
			`: deprecated since v1.31; use "mountOptions" attribute instead`)
	}
	if kind := ForeignVolume(&pv.Spec.PersistentVolumeSource); kind != "" {
		out = append(
			out,
			fmt.Sprintf(
				"spec: this machine has no driver for such a volume (%s): pods whose claims get it wait; those of the types "+
					"local, hostPath and nfs are available",
				kind,
			),
		)
	}
	return out
}

// ClaimReference returns the reference to a claim, in the volume that is bound to it and in events.
func ClaimReference(claim metav1.Object) corev1.ObjectReference {
	return corev1.ObjectReference{
		Kind: "PersistentVolumeClaim", APIVersion: "v1",
		Namespace: claim.GetNamespace(), Name: claim.GetName(), UID: claim.GetUID(),
	}
}
