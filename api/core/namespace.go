package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/runas"
)

// setNamespaceDefaults sets the label with the namespace's name, by which selectors find it.
func setNamespaceDefaults(ns *corev1.Namespace) {
	if ns.Name == "" {
		return // the name is yet to be generated
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

// PrepareNamespace sets a new namespace's phase to Active, and the finalizer that keeps it until it is empty.
func PrepareNamespace(ns *corev1.Namespace) {
	setNamespaceDefaults(ns) // the name may have been generated after the defaults were set
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

// prepareNamespaceUpdate keeps finalizers and status: they have subresources of their own.
func prepareNamespaceUpdate(ns, old *corev1.Namespace) {
	ns.Spec.Finalizers = old.Spec.Finalizers
	ns.Status = old.Status
}

// prepareNamespaceStatusUpdate keeps all but the status.
func prepareNamespaceStatusUpdate(ns, old *corev1.Namespace) {
	ns.Spec = old.Spec
}

// prepareNamespaceFinalize keeps the status: a write to finalize changes the finalizers.
func prepareNamespaceFinalize(ns, old *corev1.Namespace) {
	ns.Status = old.Status
}

// validateNamespace checks a new namespace.
func validateNamespace(ns *corev1.Namespace) field.ErrorList {
	errs := validation.ValidateObjectMeta(&ns.ObjectMeta, false, validation.ValidateNamespaceName,
		field.NewPath("metadata"))
	errs = append(errs, hostpath.Validate(ns)...)
	errs = append(errs, runas.Validate(ns)...)
	errs = append(errs, ValidateConcurrency(ns.Annotations, field.NewPath("metadata", "annotations"), true)...)
	errs = append(errs, ValidateWindow(ns.Annotations, field.NewPath("metadata", "annotations"))...)
	errs = append(errs, ValidatePreemptBy(ns.Annotations, field.NewPath("metadata", "annotations"))...)
	errs = append(errs, notices.Validate(ns.Annotations, field.NewPath("metadata", "annotations"))...)
	errs = append(errs, validateShare(ns.Annotations)...)
	return append(errs, validateNamespaceFinalizers(ns)...)
}

// validateNamespaceUpdate checks a changed namespace.
func validateNamespaceUpdate(ns, old *corev1.Namespace) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&ns.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, ValidateConcurrency(ns.Annotations, field.NewPath("metadata", "annotations"), true)...)
	errs = append(errs, ValidateWindow(ns.Annotations, field.NewPath("metadata", "annotations"))...)
	errs = append(errs, ValidatePreemptBy(ns.Annotations, field.NewPath("metadata", "annotations"))...)
	errs = append(errs, notices.Validate(ns.Annotations, field.NewPath("metadata", "annotations"))...)
	errs = append(errs, validateShare(ns.Annotations)...)
	errs = append(errs, runas.Validate(ns)...)
	return append(errs, hostpath.Validate(ns)...)
}

// validateNamespaceStatusUpdate checks that the phase agrees with the deletion timestamp.
func validateNamespaceStatusUpdate(ns, old *corev1.Namespace) field.ErrorList {
	errs := validateNamespaceUpdate(ns, old)
	phase := field.NewPath("status", "phase")
	switch {
	case ns.DeletionTimestamp == nil && ns.Status.Phase != corev1.NamespaceActive:
		errs = append(errs, field.Invalid(phase, ns.Status.Phase,
			"may only be 'Active' if `deletionTimestamp` is empty"))
	case ns.DeletionTimestamp != nil && ns.Status.Phase != corev1.NamespaceTerminating:
		errs = append(errs, field.Invalid(phase, ns.Status.Phase,
			"may only be 'Terminating' if `deletionTimestamp` is not empty"))
	}
	return errs
}

// validateNamespaceFinalize checks a write of the finalizers.
func validateNamespaceFinalize(ns, old *corev1.Namespace) field.ErrorList {
	return append(validateNamespaceUpdate(ns, old), validateNamespaceFinalizers(ns)...)
}

func validateNamespaceFinalizers(ns *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "finalizers")
	for _, f := range ns.Spec.Finalizers { // clusters name the list, not its element
		if f == corev1.FinalizerKubernetes {
			continue
		}
		bad := validation.ValidateFinalizerName(string(f), path)
		if !slices.Contains([]byte(f), '/') {
			bad = append(bad, field.Invalid(path, string(f),
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
		errs = append(errs, bad...)
	}
	return errs
}

// namespaceFields returns the fields that field selectors of namespaces may name, in addition to metadata.name.
func namespaceFields() map[string]func(*corev1.Namespace) string {
	return map[string]func(*corev1.Namespace) string{
		"status.phase": func(ns *corev1.Namespace) string { return string(ns.Status.Phase) },
	}
}
