package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateEnv(vars []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range vars {
		v, path := &vars[i], path.Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), ""))
		} else {
			errs = append(errs, invalid(path.Child("name"), v.Name, utilvalidation.IsRelaxedEnvVarName(v.Name))...)
		}
		if v.ValueFrom != nil {
			errs = append(errs, validateValueFrom(v, path.Child("valueFrom"))...)
		}
	}
	return errs
}

func validateValueFrom(v *corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	from, sources := v.ValueFrom, 0
	if from.FieldRef != nil {
		sources++
		errs = append(errs, validateFieldRef(from.FieldRef, envFieldPaths, path.Child("fieldRef"))...)
	}
	if from.ResourceFieldRef != nil {
		sources++
		errs = append(errs, validateResourceFieldRef(from.ResourceFieldRef, path.Child("resourceFieldRef"))...)
	}
	if from.ConfigMapKeyRef != nil {
		sources++
		errs = append(errs, validateKeyRef(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key,
			path.Child("configMapKeyRef"))...)
	}
	if from.SecretKeyRef != nil {
		sources++
		errs = append(errs, validateKeyRef(from.SecretKeyRef.Name, from.SecretKeyRef.Key,
			path.Child("secretKeyRef"))...)
	}
	if from.FileKeyRef != nil {
		sources++
	}
	switch {
	case sources == 0:
		errs = append(errs, field.Invalid(path, "",
			"must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case v.Value != "":
		errs = append(errs, field.Invalid(path, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func validateKeyRef(name, key string, path *field.Path) field.ErrorList {
	// Here clusters check an empty name like any other.
	errs := invalid(path.Child("name"), name, utilvalidation.IsDNS1123Subdomain(name))
	if key == "" {
		return append(errs, field.Required(path.Child("key"), ""))
	}
	return append(errs, invalid(path.Child("key"), key, utilvalidation.IsConfigMapKey(key))...)
}

func validateEnvFrom(sources []corev1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	list := path
	for i := range sources {
		s, path := &sources[i], path.Index(i)
		if s.Prefix != "" {
			errs = append(errs, invalid(path.Child("prefix"), s.Prefix,
				utilvalidation.IsRelaxedEnvVarName(s.Prefix))...)
		}
		if s.ConfigMapRef != nil {
			errs = append(errs, requiredSubdomain(path.Child("configMapRef", "name"), s.ConfigMapRef.Name)...)
		}
		if s.SecretRef != nil {
			errs = append(errs, requiredSubdomain(path.Child("secretRef", "name"), s.SecretRef.Name)...)
		}
		switch {
		case s.ConfigMapRef == nil && s.SecretRef == nil:
			// Clusters name the list here, not its element.
			errs = append(errs, field.Invalid(list, "", "must specify one of: `configMapRef` or `secretRef`"))
		case s.ConfigMapRef != nil && s.SecretRef != nil:
			errs = append(errs, field.Invalid(list, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}

// The fields that the downward API can expose, sorted: in variables, and in files.
var (
	envFieldPaths = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	fileFieldPaths = []string{
		"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
	}
	resourceFields = []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory",
		"requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
)

func validateFieldRef(ref *corev1.ObjectFieldSelector, known []string, path *field.Path) field.ErrorList {
	if ref.APIVersion == "" {
		return field.ErrorList{field.Required(path.Child("apiVersion"), "")}
	}
	if ref.FieldPath == "" {
		return field.ErrorList{field.Required(path.Child("fieldPath"), "")}
	}
	if ref.APIVersion != "v1" {
		return field.ErrorList{field.Invalid(path.Child("fieldPath"), ref.FieldPath,
			"error converting fieldPath: unsupported pod version: "+ref.APIVersion)}
	}
	name, key, subscripted := subscript(ref.FieldPath)
	if subscripted {
		switch name {
		case "metadata.annotations":
			return invalid(path, key, utilvalidation.IsQualifiedName(strings.ToLower(key)))
		case "metadata.labels":
			return invalid(path, key, utilvalidation.IsQualifiedName(key))
		}
		return field.ErrorList{field.Invalid(path, name, "does not support subscript")}
	}
	for _, list := range [...][]string{known, envFieldPaths, fileFieldPaths} {
		for _, k := range list {
			if k == name {
				return oneOf(path.Child("fieldPath"), name, known)
			}
		}
	}
	return field.ErrorList{field.Invalid(path.Child("fieldPath"), name,
		"error converting fieldPath: field label not supported: "+name)}
}

// subscript splits a path such as metadata.labels['key'].
func subscript(path string) (name, key string, ok bool) {
	head, tail, ok := strings.Cut(path, "['")
	if !ok || !strings.HasSuffix(tail, "']") {
		return path, "", false
	}
	return head, strings.TrimSuffix(tail, "']"), true
}

// The divisors that a downward API field accepts: for processors, and for bytes.
var (
	cpuDivisors  = []string{"1m", "1"}
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

func validateResourceFieldRef(ref *corev1.ResourceFieldSelector, path *field.Path) field.ErrorList {
	if ref.Resource == "" {
		return field.ErrorList{field.Required(path.Child("resource"), "")}
	}
	_, name, _ := strings.Cut(ref.Resource, ".")
	if !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) {
		if errs := oneOf(path.Child("resource"), ref.Resource, resourceFields); len(errs) > 0 {
			return errs
		}
	}
	if ref.Divisor.IsZero() {
		return nil
	}
	divisors, of := byteDivisors, name
	words := strings.Join(byteDivisors, ", ")
	switch {
	case name == string(corev1.ResourceCPU):
		divisors, words = cpuDivisors, strings.Join(cpuDivisors, " and ")
	case name == string(corev1.ResourceEphemeralStorage):
		of = "local ephemeral storage"
	case strings.HasPrefix(name, corev1.ResourceHugePagesPrefix):
		of = "hugepages"
	}
	if slices.Contains(divisors, ref.Divisor.String()) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("divisor"), ref.Resource,
		"only divisor's values "+words+" are supported with the "+of+" resource")}
}
