package core

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/kind"
)

// eventTable is what kubectl prints of events. The two generations of the API keep times, count and source in different
// fields.
func eventTable() kind.Columns[*corev1.Event] {
	doc := corev1.Event{}.SwaggerDoc()
	name := kind.NameColumn[*corev1.Event]()
	name.Priority = 1
	return kind.Columns[*corev1.Event]{
		{Name: "Last Seen", Description: doc["lastTimestamp"],
			Cell: func(e *corev1.Event, now time.Time) any { return kind.Age(lastSeen(e), now) }},
		{Name: "Type", Description: doc["type"], Cell: func(e *corev1.Event, _ time.Time) any { return e.Type }},
		{Name: "Reason", Description: doc["reason"], Cell: func(e *corev1.Event, _ time.Time) any { return e.Reason }},
		{Name: "Object", Description: doc["involvedObject"], Cell: func(e *corev1.Event, _ time.Time) any { return eventObject(e) }},
		{Name: "Subobject", Priority: 1, Description: doc["involvedObject.fieldPath"],
			Cell: func(e *corev1.Event, _ time.Time) any { return e.InvolvedObject.FieldPath }},
		{Name: "Source", Priority: 1, Description: doc["source"], Cell: func(e *corev1.Event, _ time.Time) any { return eventSource(e) }},
		{Name: "Message", Description: doc["message"],
			Cell: func(e *corev1.Event, _ time.Time) any { return strings.TrimSpace(e.Message) }},
		{Name: "First Seen", Priority: 1, Description: doc["firstTimestamp"],
			Cell: func(e *corev1.Event, now time.Time) any { return kind.Age(firstSeen(e), now) }},
		{Name: "Count", Priority: 1, Description: doc["count"], Cell: func(e *corev1.Event, _ time.Time) any { return timesSeen(e) }},
		name,
	}
}

func firstSeen(e *corev1.Event) metav1.Time {
	if e.FirstTimestamp.IsZero() {
		return metav1.Time(e.EventTime)
	}
	return e.FirstTimestamp
}

func lastSeen(e *corev1.Event) metav1.Time {
	last := e.LastTimestamp
	if e.Series != nil {
		last = metav1.Time(e.Series.LastObservedTime)
	}
	if last.IsZero() {
		return firstSeen(e)
	}
	return last
}

// LastSeen returns when an event was seen last, or was created if it does not say so.
func LastSeen(e *corev1.Event) time.Time {
	if last := lastSeen(e); !last.IsZero() {
		return last.Time
	}
	return e.CreationTimestamp.Time
}

func timesSeen(e *corev1.Event) int64 {
	if e.Series != nil {
		return int64(cmp.Or(e.Series.Count, 1))
	}
	return int64(cmp.Or(e.Count, 1))
}

// eventObject returns what the event is about: "job/pi".
func eventObject(e *corev1.Event) string {
	object := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		object += "/" + e.InvolvedObject.Name
	}
	return object
}

// eventSource returns who reported the event, and from where: "kubelet, node-1".
func eventSource(e *corev1.Event) string {
	component, instance := e.Source.Component, e.Source.Host
	if component == "" {
		component = e.ReportingController
	}
	if instance == "" {
		instance = e.ReportingInstance
	}
	if instance == "" {
		return component
	}
	return fmt.Sprintf("%s, %s", component, instance)
}
