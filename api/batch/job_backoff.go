package batch

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotations of a Job that set its own back-off before failed pods are replaced, as durations ("500ms", "2m").
// The daemon's settings apply where they are absent.
const (
	BackoffBaseAnnotation = "jobd.dev/backoff-base"
	BackoffCapAnnotation  = "jobd.dev/backoff-cap"
)

// JobBackoff returns the back-off that a Job's annotations ask for; zero where they do not set it.
func JobBackoff(annotations map[string]string) (base, limit time.Duration, err error) {
	if base, err = backoffAnnotation(annotations, BackoffBaseAnnotation); err != nil {
		return 0, 0, err
	}
	if limit, err = backoffAnnotation(annotations, BackoffCapAnnotation); err != nil {
		return 0, 0, err
	}
	return base, limit, nil
}

func backoffAnnotation(annotations map[string]string, name string) (time.Duration, error) {
	value, ok := annotations[name]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("must be a duration such as \"500ms\" or \"2m\"")
	}
	if d <= 0 {
		return 0, fmt.Errorf("must be longer than 0")
	}
	return d, nil
}

func validateBackoffAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range [...]string{BackoffBaseAnnotation, BackoffCapAnnotation} {
		if _, err := backoffAnnotation(annotations, name); err != nil {
			errs = append(errs, field.Invalid(path.Key(name), annotations[name], err.Error()))
		}
	}
	base, limit, err := JobBackoff(annotations)
	if err == nil && base > 0 && limit > 0 && limit < base {
		errs = append(errs, field.Invalid(path.Key(BackoffCapAnnotation), annotations[BackoffCapAnnotation],
			"must not be shorter than "+BackoffBaseAnnotation))
	}
	return errs
}
