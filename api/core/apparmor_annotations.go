package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/podspec"
)

// appArmorOf returns the profile that an annotation from before Kubernetes 1.30 asks for, or nil
// (DeprecatedAppArmorBetaContainerAnnotationKeyPrefix, KEP-24).
func appArmorOf(value string) *corev1.AppArmorProfile {
	local, ok := strings.CutPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	switch {
	case value == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case value == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case ok && strings.TrimSpace(local) != "":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}
	}
	return nil
}

// applyAppArmorAnnotations copies the annotations to the fields of those containers that have none.
func applyAppArmorAnnotations(annotations map[string]string, spec *corev1.PodSpec) {
	for c := range podspec.Containers(spec) {
		asked := appArmorOf(annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name])
		switch {
		case asked == nil || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil:
		case spec.SecurityContext != nil && equality.Semantic.DeepEqual(asked, spec.SecurityContext.AppArmorProfile):
		default:
			if c.SecurityContext == nil {
				c.SecurityContext = &corev1.SecurityContext{}
			}
			c.SecurityContext.AppArmorProfile = asked
		}
	}
}

// eachAppArmorAnnotation calls f for each AppArmor annotation, in order.
func eachAppArmorAnnotation(annotations map[string]string, f func(key, container, value string)) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if container, ok := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix); ok {
			f(key, container, annotations[key])
		}
	}
}

// validateAppArmorAnnotations checks that each annotation names a container and a valid profile, and the same profile
// as the field where that is set too.
func validateAppArmorAnnotations(
	annotations map[string]string, path *field.Path, spec *corev1.PodSpec, specPath *field.Path,
) (errs field.ErrorList) {
	eachAppArmorAnnotation(annotations, func(key, container, value string) {
		c, at := containerOf(spec, container, specPath)
		asked := appArmorOf(value)
		switch {
		case c == nil:
			errs = append(errs, field.Invalid(path.Key(key), container, "container not found"))
		case asked == nil && value != "":
			errs = append(errs, field.Invalid(path.Key(key), value,
				fmt.Sprintf("invalid AppArmor profile name: %q", value)))
		case asked == nil || c.SecurityContext == nil || c.SecurityContext.AppArmorProfile == nil:
		case c.SecurityContext.AppArmorProfile.Type != asked.Type:
			errs = append(errs, field.Forbidden(at.Child("securityContext", "appArmorProfile", "type"),
				"apparmor type in annotation and field must match"))
		case !equality.Semantic.DeepEqual(asked, c.SecurityContext.AppArmorProfile):
			errs = append(errs, field.Forbidden(at.Child("securityContext", "appArmorProfile", "localhostProfile"),
				"apparmor profile in annotation and field must match"))
		}
	})
	return errs
}

func containerOf(spec *corev1.PodSpec, name string, path *field.Path) (*corev1.Container, *field.Path) {
	for i := range spec.InitContainers {
		if spec.InitContainers[i].Name == name {
			return &spec.InitContainers[i], path.Child("initContainers").Index(i)
		}
	}
	for i := range spec.Containers {
		if spec.Containers[i].Name == name {
			return &spec.Containers[i], path.Child("containers").Index(i)
		}
	}
	return nil, nil
}

// appArmorWarnings returns a warning for each annotation that a field has replaced; path is the path of the
// annotations.
func appArmorWarnings(annotations map[string]string, path *field.Path) (out []string) {
	eachAppArmorAnnotation(annotations, func(key, _, _ string) {
		out = append(out, fmt.Sprintf(`%s: deprecated since v1.30; use the "appArmorProfile" field instead`,
			path.Key(key)))
	})
	return out
}
