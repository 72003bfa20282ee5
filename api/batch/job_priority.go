package batch

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PrioritizedAnnotation puts the waiting pods of a Job before all others of the same priority (PodSpec.Priority): a time
// in RFC3339, with a fraction if need be. Of several such Jobs the one with the latest time comes first. "jobctl
// prioritize" sets it to the current time.
const PrioritizedAnnotation = "jobd.dev/prioritized-at"

// Prioritized returns the time in a Job's PrioritizedAnnotation; zero if it has none, or one that is no time.
func Prioritized(annotations map[string]string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, annotations[PrioritizedAnnotation])
	if err != nil {
		return time.Time{}
	}
	return t
}

// clockSkew is how far a client's clock may be ahead.
const clockSkew = time.Minute

// validatePrioritized checks the annotation where it differs from that of the Job so far. A time to come would keep the Job
// first, whatever is prioritized until then.
func validatePrioritized(annotations, old map[string]string, path *field.Path) field.ErrorList {
	value, ok := annotations[PrioritizedAnnotation]
	was, had := old[PrioritizedAnnotation]
	if !ok || had && value == was {
		return nil
	}
	path = path.Key(PrioritizedAnnotation)
	switch at := Prioritized(annotations); {
	case at.IsZero():
		return field.ErrorList{field.Invalid(path, value, `must be a time such as "2006-01-02T15:04:05Z"`)}
	case time.Until(at) > clockSkew:
		return field.ErrorList{field.Invalid(path, value, "must not be in the future")}
	}
	return nil
}
