package batch

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// StartAtAnnotation is when a suspended Job starts: a time in RFC 3339. jobd resumes it then or, if it did not run at that time, as
// soon as it does. A cluster leaves the Job suspended.
const StartAtAnnotation = "jobd.dev/start-at"

// StartAt returns when a Job is to start, in the zone in which that is written; false if its annotation is missing or not valid. A time
// that is in the year 10000 of UTC, or before 0, cannot be written as one, as forecasts do.
func StartAt(annotations map[string]string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, annotations[StartAtAnnotation])
	year := at.UTC().Year()
	return at, err == nil && year >= 0 && year <= 9999
}

// AwaitsTime reports whether a Job is suspended until a time, when jobd resumes it. It may wait for other Jobs too.
func AwaitsTime(j *batchv1.Job) bool {
	_, ok := StartAt(j.Annotations)
	return ok && resumable(j)
}

// HeldBy names the annotations by which a Job is held back, or was: AfterAnnotation, StartAtAnnotation, or both.
func HeldBy(annotations map[string]string) string {
	var names []string
	for _, name := range []string{AfterAnnotation, StartAtAnnotation} {
		if annotations[name] != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and ")
}

// validateStartAt checks the annotation of a new Job. waited says that the Job is not new, and waits no more.
func validateStartAt(annotations map[string]string, spec *batchv1.JobSpec, waited bool, path *field.Path) field.ErrorList {
	text, ok := annotations[StartAtAnnotation]
	if !ok {
		return nil
	}
	path = path.Key(StartAtAnnotation)
	if _, ok := StartAt(annotations); !ok {
		return field.ErrorList{field.Invalid(path, text,
			`must be a time with its zone, such as "2026-12-01T22:00:00+01:00" or "2026-12-01T21:00:00Z", in the years from 0 to 9999 (UTC)`)}
	}
	if !waited && !ptr.Deref(spec.Suspend, false) {
		return field.ErrorList{field.Invalid(path, text, "needs spec.suspend: true, else the Job would start at once; jobd resumes it at that time")}
	}
	return nil
}

// validateNoStartAt refuses the annotation for the Jobs of a CronJob, which would all start at the same time.
func validateNoStartAt(annotations map[string]string, path *field.Path) field.ErrorList {
	text, ok := annotations[StartAtAnnotation]
	if !ok {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Key(StartAtAnnotation), text, "cannot be that of each Job: spec.schedule says when they start")}
}

// clock returns a time as a table has it, in the zone that the time has: with the day unless it is within a day, and with the date
// unless it is within a week.
func clock(at, now time.Time) string {
	switch d := at.Sub(now); {
	case d < 24*time.Hour:
		return at.Format("15:04")
	case d < 6*24*time.Hour:
		return at.Format("Mon-15:04")
	}
	return at.Format(time.DateOnly)
}
