package core

// The description of the kind for the server: the same events are served by two groups, in two shapes.

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/kind"
)

// EventKind describes Events of v1 and events.k8s.io/v1.
func EventKind() *kind.Kind {
	return kind.Of[corev1.Event, corev1.EventList](kind.Description[*corev1.Event]{
		GroupVersion: corev1.SchemeGroupVersion,
		Name:         "Event",
		ShortNames:   []string{"ev"},
		Namespaced:   true,
		Fields:       eventFields(),
		Table:        eventTable(),
		Rules: kind.Rules[*corev1.Event]{
			Check:       validateEvent,
			CheckUpdate: validateEventUpdate,
			CreateOnPut: true,
		},
		AlsoIn: []kind.Alias{{
			GroupVersion: eventsv1.SchemeGroupVersion,
			Register:     registerEventConversions,
			Check:        func(obj runtime.Object) field.ErrorList { return validateNewerEvent(obj.(*corev1.Event)) },
			CheckUpdate: func(obj, old runtime.Object) field.ErrorList {
				return validateNewerEventUpdate(obj.(*corev1.Event), old.(*corev1.Event))
			},
			Fields: map[string]string{
				"regarding.kind":            "involvedObject.kind",
				"regarding.namespace":       "involvedObject.namespace",
				"regarding.name":            "involvedObject.name",
				"regarding.uid":             "involvedObject.uid",
				"regarding.apiVersion":      "involvedObject.apiVersion",
				"regarding.resourceVersion": "involvedObject.resourceVersion",
				"regarding.fieldPath":       "involvedObject.fieldPath",
				"reportingController":       "reportingComponent",
			},
		}},
	})
}

func registerEventConversions(s *runtime.Scheme) error {
	for _, add := range []func() error{
		func() error {
			return s.AddConversionFunc((*corev1.Event)(nil), (*eventsv1.Event)(nil), func(a, b any, _ conversion.Scope) error {
				*b.(*eventsv1.Event) = newerEvent(a.(*corev1.Event))
				return nil
			})
		},
		func() error {
			return s.AddConversionFunc((*eventsv1.Event)(nil), (*corev1.Event)(nil), func(a, b any, _ conversion.Scope) error {
				*b.(*corev1.Event) = olderEvent(a.(*eventsv1.Event))
				return nil
			})
		},
		func() error {
			return s.AddConversionFunc((*corev1.EventList)(nil), (*eventsv1.EventList)(nil), func(a, b any, _ conversion.Scope) error {
				from, to := a.(*corev1.EventList), b.(*eventsv1.EventList)
				to.ListMeta = from.ListMeta
				to.Items = make([]eventsv1.Event, len(from.Items))
				for i := range from.Items {
					to.Items[i] = newerEvent(&from.Items[i])
				}
				return nil
			})
		},
	} {
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

func newerEvent(e *corev1.Event) eventsv1.Event {
	out := eventsv1.Event{
		ObjectMeta:               e.ObjectMeta,
		EventTime:                e.EventTime,
		ReportingController:      e.ReportingController,
		ReportingInstance:        e.ReportingInstance,
		Action:                   e.Action,
		Reason:                   e.Reason,
		Regarding:                e.InvolvedObject,
		Related:                  e.Related,
		Note:                     e.Message,
		Type:                     e.Type,
		DeprecatedSource:         e.Source,
		DeprecatedFirstTimestamp: e.FirstTimestamp,
		DeprecatedLastTimestamp:  e.LastTimestamp,
		DeprecatedCount:          e.Count,
	}
	if e.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return out
}

func olderEvent(e *eventsv1.Event) corev1.Event {
	out := corev1.Event{
		ObjectMeta:          e.ObjectMeta,
		EventTime:           e.EventTime,
		ReportingController: e.ReportingController,
		ReportingInstance:   e.ReportingInstance,
		Action:              e.Action,
		Reason:              e.Reason,
		InvolvedObject:      e.Regarding,
		Related:             e.Related,
		Message:             e.Note,
		Type:                e.Type,
		Source:              e.DeprecatedSource,
		FirstTimestamp:      e.DeprecatedFirstTimestamp,
		LastTimestamp:       e.DeprecatedLastTimestamp,
		Count:               e.DeprecatedCount,
	}
	if e.Series != nil {
		out.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return out
}
