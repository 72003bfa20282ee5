// Package runtimeclass holds the rules of node.k8s.io/v1: RuntimeClass, as the description that RuntimeClassKind returns. Beside
// that it brings a class into the pods that name it. All of them touch nothing but their arguments.
package runtimeclass

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/kind"
)

// validateRuntimeClass checks a runtime class, new or changed.
func validateRuntimeClass(rc *nodev1.RuntimeClass) field.ErrorList {
	errs := validation.ValidateObjectMeta(&rc.ObjectMeta, false, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	handler := field.NewPath("handler")
	if rc.Handler == "" {
		errs = append(errs, field.Required(handler, ""))
	} else {
		for _, msg := range content.IsDNS1123Label(rc.Handler) {
			errs = append(errs, field.Invalid(handler, rc.Handler, msg))
		}
	}
	if rc.Overhead != nil {
		errs = append(errs, core.ValidateOverhead(rc.Overhead.PodFixed, field.NewPath("overhead"))...)
	}
	if rc.Scheduling != nil {
		errs = append(errs, validateScheduling(rc.Scheduling, field.NewPath("scheduling"))...)
	}
	return errs
}

func validateScheduling(s *nodev1.Scheduling, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))
	tolerations := path.Child("tolerations")
	errs = append(errs, core.ValidateTolerations(s.Tolerations, tolerations)...)
	seen := map[corev1.Toleration]bool{}
	for i, t := range s.Tolerations {
		key := t
		key.TolerationSeconds = nil
		if seen[key] {
			errs = append(errs, field.Duplicate(tolerations.Index(i), t))
		}
		seen[key] = true
	}
	return errs
}

// validateRuntimeClassUpdate checks a changed runtime class: its pods run under its handler already.
func validateRuntimeClassUpdate(rc, old *nodev1.RuntimeClass) field.ErrorList {
	errs := validateRuntimeClass(rc)
	errs = append(errs, validation.ValidateObjectMetaUpdate(&rc.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
	return append(errs, validation.ValidateImmutableField(rc.Handler, old.Handler, field.NewPath("handler"))...)
}

// RuntimeClassKind describes node.k8s.io/v1 RuntimeClasses.
func RuntimeClassKind() *kind.Kind {
	return kind.Of[nodev1.RuntimeClass, nodev1.RuntimeClassList](kind.Description[*nodev1.RuntimeClass]{
		GroupVersion: nodev1.SchemeGroupVersion,
		Name:         "RuntimeClass",
		Table: kind.Columns[*nodev1.RuntimeClass]{
			kind.NameColumn[*nodev1.RuntimeClass](),
			{Name: "Handler", Description: nodev1.RuntimeClass{}.SwaggerDoc()["handler"],
				Cell: func(rc *nodev1.RuntimeClass, _ time.Time) any { return rc.Handler }},
			kind.AgeColumn[*nodev1.RuntimeClass](),
		},
		Rules: kind.Rules[*nodev1.RuntimeClass]{
			Check:       validateRuntimeClass,
			CheckUpdate: validateRuntimeClassUpdate,
			CreateOnPut: true,
		},
	})
}
