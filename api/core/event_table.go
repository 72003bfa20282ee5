package core

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/kind"
)

// eventColumns returns the columns of the table that kubectl prints for events; columns of priority 1 are shown with -o
// wide.
func eventColumns() []metav1.TableColumnDefinition {
	doc := corev1.Event{}.SwaggerDoc()
	name := kind.NameColumn()
	name.Priority = 1
	return []metav1.TableColumnDefinition{
		{Name: "Last Seen", Type: "string", Description: doc["lastTimestamp"]},
		{Name: "Type", Type: "string", Description: doc["type"]},
		{Name: "Reason", Type: "string", Description: doc["reason"]},
		{Name: "Object", Type: "string", Description: doc["involvedObject"]},
		{Name: "Subobject", Type: "string", Priority: 1, Description: doc["involvedObject.fieldPath"]},
		{Name: "Source", Type: "string", Priority: 1, Description: doc["source"]},
		{Name: "Message", Type: "string", Description: doc["message"]},
		{Name: "First Seen", Type: "string", Priority: 1, Description: doc["firstTimestamp"]},
		{Name: "Count", Type: "string", Priority: 1, Description: doc["count"]},
		name,
	}
}

// eventCells returns one row of that table. The two generations of the API keep times, count and source in different
// fields.
func eventCells(e *corev1.Event, now time.Time) []any {
	first := e.FirstTimestamp
	if first.IsZero() {
		first = metav1.Time(e.EventTime)
	}
	last, count := e.LastTimestamp, e.Count
	if e.Series != nil {
		last, count = metav1.Time(e.Series.LastObservedTime), e.Series.Count
	}
	if last.IsZero() {
		last = first
	}
	if count == 0 {
		count = 1
	}
	object := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		object += "/" + e.InvolvedObject.Name
	}
	return []any{
		Age(last, now), e.Type, e.Reason, object, e.InvolvedObject.FieldPath, eventSource(e),
		strings.TrimSpace(e.Message), Age(first, now), int64(count), e.Name,
	}
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
