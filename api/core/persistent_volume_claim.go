package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Finalizers that keep claims and volumes for as long as they are in use, as in a cluster.
const (
	ClaimProtection  = "kubernetes.io/pvc-protection"
	VolumeProtection = "kubernetes.io/pv-protection"
)

// Reasons that claims and volumes share.
const (
	noDataSource       = "a volume cannot be filled from another one or from a snapshot"
	noAttributeClasses = "volumes have no attributes that a class could change"
)

var (
	accessModes = []corev1.PersistentVolumeAccessMode{
		corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
	}
	volumeModes = []corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}
)

// setClaimDefaults fills in what the manifest of a claim left out.
func setClaimDefaults(claim *corev1.PersistentVolumeClaim) {
	setDefault(&claim.Status.Phase, corev1.ClaimPending)
	setClaimSpecDefaults(&claim.Spec)
	roundResources(claim.Status.Capacity)
	roundResources(claim.Status.AllocatedResources)
}

// setClaimSpecDefaults fills in what claims and the templates of claims in pods have in common.
func setClaimSpecDefaults(spec *corev1.PersistentVolumeClaimSpec) {
	if spec.VolumeMode == nil {
		spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	}
	roundResources(spec.Resources.Limits)
	roundResources(spec.Resources.Requests)
}

// PrepareClaim brings a new claim into the form that is stored: Pending, and kept while pods use it.
func PrepareClaim(claim *corev1.PersistentVolumeClaim) {
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	if !slices.Contains(claim.Finalizers, ClaimProtection) {
		claim.Finalizers = append(claim.Finalizers, ClaimProtection)
	}
}

// prepareClaimUpdate keeps the status, and the protection, which a client may take away in a cluster: here the volume would be
// deleted and its device given to others while pods still have it.
func prepareClaimUpdate(claim, old *corev1.PersistentVolumeClaim) {
	claim.Status = old.Status
	if slices.Contains(old.Finalizers, ClaimProtection) && !slices.Contains(claim.Finalizers, ClaimProtection) {
		claim.Finalizers = append(claim.Finalizers, ClaimProtection)
	}
}

func prepareClaimStatusUpdate(claim, old *corev1.PersistentVolumeClaim) { claim.Spec = old.Spec }

func validateClaim(claim *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := validation.ValidateObjectMeta(&claim.ObjectMeta, true, validation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	path := field.NewPath("spec")
	errs = append(errs, validateClaimSpec(&claim.Spec, path)...)
	for _, f := range []struct {
		name   string
		set    bool
		reason string
	}{
		{"dataSource", claim.Spec.DataSource != nil, noDataSource},
		{"dataSourceRef", claim.Spec.DataSourceRef != nil, noDataSource},
		{"volumeAttributesClassName", ptr.Deref(claim.Spec.VolumeAttributesClassName, "") != "", noAttributeClasses},
	} {
		if f.set {
			errs = append(errs, unsupportedField(path.Child(f.name), f.reason))
		}
	}
	return errs
}

// validateClaimSpec checks the spec of a claim, or of a template of one in a pod.
func validateClaimSpec(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	if spec.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector,
			metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	}
	errs = append(errs, validateAccessModes(spec.AccessModes, path.Child("accessModes"))...)
	storage := path.Child("resources").Key(string(corev1.ResourceStorage))
	if size, ok := spec.Resources.Requests[corev1.ResourceStorage]; ok {
		errs = append(errs, positive(size, storage)...)
	} else {
		errs = append(errs, field.Required(storage, ""))
	}
	if class := ptr.Deref(spec.StorageClassName, ""); class != "" {
		errs = append(errs, invalid(path.Child("storageClassName"), class, utilvalidation.IsDNS1123Subdomain(class))...)
	}
	if spec.VolumeMode != nil {
		errs = append(errs, oneOf(path.Child("volumeMode"), *spec.VolumeMode, volumeModes)...)
	}
	return errs
}

// validateAccessModes checks the access modes of a claim or volume.
func validateAccessModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	once, other := false, false
	for _, mode := range modes {
		errs = append(errs, oneOf(path, mode, accessModes)...)
		if mode == corev1.ReadWriteOncePod {
			once = true
		} else if slices.Contains(accessModes, mode) {
			other = true
		}
	}
	if once && other {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func positive(amount resource.Quantity, path *field.Path) field.ErrorList {
	if amount.Sign() <= 0 {
		return field.ErrorList{field.Invalid(path, amount.String(), "must be greater than zero")}
	}
	return nil
}

// validateClaimUpdate checks a changed claim. Of a claim that is bound, the requested size may change; of one that has
// neither a class nor a volume yet, both may be set.
func validateClaimUpdate(claim, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&claim.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateClaim(claim)...)
	const annotation = corev1.BetaStorageClassAnnotation
	class, wasClass := claim.Annotations[annotation], old.Annotations[annotation]
	if class != wasClass {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(annotation), class,
			validation.FieldImmutableErrorMsg))
	}
	now, was := claim.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName
	}
	if was.StorageClassName == nil && now.StorageClassName != nil && (wasClass == "" || *now.StorageClassName == wasClass) {
		was.StorageClassName = now.StorageClassName
	}
	size, wasSize := now.Resources.Requests[corev1.ResourceStorage], was.Resources.Requests[corev1.ResourceStorage]
	if claim.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = wasSize
		}
		now.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	spec := field.NewPath("spec")
	if !equality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(spec, fmt.Sprintf("spec is immutable after creation except "+
			"resources.requests and volumeAttributesClassName for bound claims\n%v", diff.Diff(*was, *now))))
	}
	if capacity := old.Status.Capacity[corev1.ResourceStorage]; size.Cmp(wasSize) < 0 && size.Cmp(capacity) <= 0 {
		errs = append(errs, field.Forbidden(spec.Child("resources", "requests", "storage"),
			"field can not be less than status.capacity"))
	}
	return append(errs, validation.ValidateImmutableField(claim.Spec.VolumeMode, old.Spec.VolumeMode,
		field.NewPath("volumeMode"))...)
}

// validateClaimStatusUpdate checks what an administrator writes into the status of a claim.
func validateClaimStatusUpdate(claim, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&claim.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("status", "capacity")
	for _, name := range sortedKeys(claim.Status.Capacity) {
		if amount := claim.Status.Capacity[name]; amount.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Key(string(name)), amount.Value(), "must be a valid resource quantity"))
		}
	}
	return errs
}

// claimWarnings returns the warnings for an accepted claim.
func claimWarnings(claim *corev1.PersistentVolumeClaim) []string {
	var out []string
	if _, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		out = append(out, classAnnotationWarning())
	}
	return append(out, claimSpecWarnings(&claim.Spec, field.NewPath("spec"))...)
}

func classAnnotationWarning() string {
	return fmt.Sprintf(`%s: deprecated since v1.8; use "storageClassName" attribute instead`,
		field.NewPath("metadata", "annotations").Key(corev1.BetaStorageClassAnnotation))
}

// claimSpecWarnings names sizes that are no whole number of bytes.
func claimSpecWarnings(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	var out []string
	for _, list := range []struct {
		name    string
		amounts corev1.ResourceList
	}{{"requests", spec.Resources.Requests}, {"limits", spec.Resources.Limits}} {
		if size := list.amounts[corev1.ResourceStorage]; size.MilliValue()%1000 != 0 {
			out = append(out, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
				path.Child("resources", list.name).Key(string(corev1.ResourceStorage)), size.String()))
		}
	}
	return out
}

// validateClaimTemplate checks the template of a claim in a volume of the type ephemeral.
func validateClaimTemplate(t *corev1.PersistentVolumeClaimTemplate, path *field.Path) field.ErrorList {
	meta := path.Child("metadata")
	errs := validation.ValidateAnnotations(t.Annotations, meta.Child("annotations"))
	errs = append(errs, metav1validation.ValidateLabels(t.Labels, meta.Child("labels"))...)
	rest := t.ObjectMeta.DeepCopy()
	rest.Annotations, rest.Labels = nil, nil
	if !equality.Semantic.DeepEqual(*rest, metav1.ObjectMeta{}) {
		errs = append(errs, field.Forbidden(meta, "only labels and annotations can be set"))
	}
	return append(errs, validateClaimSpec(&t.Spec, path.Child("spec"))...)
}
