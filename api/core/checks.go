package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// invalid returns an error for each message.
func invalid(path *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range messages {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

func dnsLabel(path *field.Path, value string) field.ErrorList {
	return invalid(path, value, utilvalidation.IsDNS1123Label(value))
}

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
		return field.ErrorList{field.Required(path, "")}
	}
	return oneOf(path, value, supported)
}

func required(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// requiredSubdomain refuses a missing name, and one that is not a DNS subdomain, as the names of most objects are.
func requiredSubdomain(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return invalid(path, name, utilvalidation.IsDNS1123Subdomain(name))
}

// notNegative returns the error that a cluster returns for negative counts of all kinds.
func notNegative[T int32 | int64](path *field.Path, value T) field.ErrorList {
	if value < 0 {
		return field.ErrorList{field.Invalid(path, value, "must be greater than or equal to 0")}
	}
	return nil
}

// exactlyOne checks a struct of which exactly one member has to be set. Only the first one that is set is checked
// further.
type exactlyOne struct {
	path  *field.Path
	what  string
	found bool
	errs  field.ErrorList
}

func (o *exactlyOne) member(name string, set bool, check func(*field.Path) field.ErrorList) {
	switch {
	case !set:
	case o.found:
		o.errs = append(o.errs, field.Forbidden(o.path.Child(name),
			fmt.Sprintf("may not specify more than 1 %s type", o.what)))
	default:
		o.found = true
		if check != nil {
			o.errs = append(o.errs, check(o.path.Child(name))...)
		}
	}
}

func (o *exactlyOne) result() field.ErrorList {
	if !o.found {
		return append(o.errs, field.Required(o.path, fmt.Sprintf("must specify a %s type", o.what)))
	}
	return o.errs
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
