package batch

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// oneOf refuses a value that is not among the supported ones.
func oneOf[T ~string](path *field.Path, value T, supported []T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// requiredOneOf refuses a missing value, and one that is not supported.
func requiredOneOf[T ~string](path *field.Path, value T, supported []T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q", supported))}
	}
	return oneOf(path, value, supported)
}
