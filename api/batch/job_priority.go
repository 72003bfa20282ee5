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

func validatePrioritized(annotations map[string]string, path *field.Path) field.ErrorList {
	value, ok := annotations[PrioritizedAnnotation]
	if !ok || !Prioritized(annotations).IsZero() {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Key(PrioritizedAnnotation), value, `must be a time such as "2006-01-02T15:04:05Z"`)}
}
