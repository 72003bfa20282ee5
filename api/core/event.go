package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateEvent checks a new event of v1. Its name may be any segment of a path, as that of an object may which it begins with:
// system:node.17a4.
func validateEvent(event *corev1.Event) field.ErrorList {
	return append(validation.ValidateObjectMeta(&event.ObjectMeta, true, anySegment, field.NewPath("metadata")),
		validateAnyEvent(event, "reportingComponent")...)
}

func anySegment(name string, _ bool) []string { return content.IsPathSegmentName(name) }

// validateAnyEvent checks what both groups require: an event is in the namespace of its object, or in "default" if the
// object has no namespace. An event with an eventTime may be elsewhere, and must also name its reporter, an action and
// a reason. reporter is the name of that field, which differs between the groups.
func validateAnyEvent(event *corev1.Event, reporter string) (errs field.ErrorList) {
	about, dated := event.InvolvedObject.Namespace, !event.EventTime.IsZero()
	switch {
	case event.Namespace == about:
	case about == "" && event.Namespace == metav1.NamespaceDefault:
	case about == "" && event.Namespace == metav1.NamespaceSystem && dated:
	case about != "" && dated:
	default:
		errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"), about,
			"does not match event.namespace"))
	}
	if !dated {
		return errs
	}
	errs = append(errs, required(field.NewPath(reporter), event.ReportingController)...)
	errs = append(errs, invalid(field.NewPath(reporter), event.ReportingController,
		utilvalidation.IsQualifiedName(event.ReportingController))...)
	for _, f := range []struct {
		name, value string
		max         int
	}{
		{"reportingInstance", event.ReportingInstance, 128}, {"action", event.Action, 128},
		{"reason", event.Reason, 128}, {"message", event.Message, 1024},
	} {
		at := field.NewPath(f.name)
		if f.name != "message" {
			errs = append(errs, required(at, f.value)...)
		}
		if len(f.value) > f.max {
			errs = append(errs, field.Invalid(at, "", fmt.Sprintf("can have at most %d characters", f.max)))
		}
	}
	return errs
}

// validateNewerEvent checks an event of events.k8s.io: the fields that only older events use must be empty.
func validateNewerEvent(event *corev1.Event) field.ErrorList {
	errs := validation.ValidateObjectMeta(&event.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validateAnyEvent(event, "reportingController")...)
	errs = append(errs, validateEventSeries(event.Series)...)
	if event.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+event.Type))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !event.FirstTimestamp.IsZero()}, {"lastTimestamp", !event.LastTimestamp.IsZero()},
		{"count", event.Count != 0}, {"source", event.Source != (corev1.EventSource{})},
	} {
		if f.set {
			errs = append(errs, field.Invalid(field.NewPath(f.name), "", "needs to be unset"))
		}
	}
	return errs
}

// validateEventSeries checks the series of an event that has occurred again.
func validateEventSeries(series *corev1.EventSeries) (errs field.ErrorList) {
	if series == nil {
		return nil
	}
	if series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

// validateNewerEventUpdate lets an event of events.k8s.io become a series, and nothing else.
func validateNewerEventUpdate(event, old *corev1.Event) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&event.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateAnyEvent(event, "reportingController")...)
	if !equality.Semantic.DeepEqual(event.Series, old.Series) {
		errs = append(errs, validateEventSeries(event.Series)...)
	}
	for _, f := range []struct {
		name     string
		now, was any
	}{
		{"involvedObject", event.InvolvedObject, old.InvolvedObject},
		{"reason", event.Reason, old.Reason},
		{"message", event.Message, old.Message},
		{"source", event.Source, old.Source},
		{"firstTimestamp", event.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", event.LastTimestamp, old.LastTimestamp},
		{"count", event.Count, old.Count},
		{"type", event.Type, old.Type},
		{"eventTime", event.EventTime, old.EventTime},
		{"action", event.Action, old.Action},
		{"related", event.Related, old.Related},
		{"reportingController", event.ReportingController, old.ReportingController},
		{"reportingInstance", event.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, validation.ValidateImmutableField(f.now, f.was, field.NewPath(f.name))...)
	}
	return errs
}

// validateEventUpdate checks a changed event of v1.
func validateEventUpdate(event, old *corev1.Event) field.ErrorList {
	return append(validation.ValidateObjectMetaUpdate(&event.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")),
		validateAnyEvent(event, "reportingComponent")...)
}

// eventFields returns the fields that field selectors of events may name, in addition to metadata.name and
// metadata.namespace.
func eventFields() map[string]func(*corev1.Event) string {
	return map[string]func(*corev1.Event) string{
		"involvedObject.kind":            func(e *corev1.Event) string { return e.InvolvedObject.Kind },
		"involvedObject.namespace":       func(e *corev1.Event) string { return e.InvolvedObject.Namespace },
		"involvedObject.name":            func(e *corev1.Event) string { return e.InvolvedObject.Name },
		"involvedObject.uid":             func(e *corev1.Event) string { return string(e.InvolvedObject.UID) },
		"involvedObject.apiVersion":      func(e *corev1.Event) string { return e.InvolvedObject.APIVersion },
		"involvedObject.resourceVersion": func(e *corev1.Event) string { return e.InvolvedObject.ResourceVersion },
		"involvedObject.fieldPath":       func(e *corev1.Event) string { return e.InvolvedObject.FieldPath },
		"reason":                         func(e *corev1.Event) string { return e.Reason },
		"reportingComponent":             eventReporter,
		"source":                         eventReporter,
		"type":                           func(e *corev1.Event) string { return e.Type },
	}
}

// eventReporter returns who reports the event: the two generations of the API have a field each.
func eventReporter(e *corev1.Event) string {
	if e.Source.Component != "" {
		return e.Source.Component
	}
	return e.ReportingController
}
