package kind

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Table is what kubectl prints of the objects of a kind: Columns, or Summarized.
type Table[T any] interface {
	Definitions() []metav1.TableColumnDefinition
	// Cells returns the row of an object: a cell for each of the definitions.
	Cells(obj T, now time.Time) []any
}

// Columns is a table as the list of its columns.
type Columns[T any] []Column[T]

// Column is a column, with its cell for an object. Columns of priority 1 are shown with -o wide only.
type Column[T any] struct {
	Name         string
	Type, Format string // an empty Type is "string"
	Priority     int32
	Description  string
	Cell         func(obj T, now time.Time) any
}

// Definitions implements Table.
func (all Columns[T]) Definitions() []metav1.TableColumnDefinition {
	out := make([]metav1.TableColumnDefinition, len(all))
	for i, c := range all {
		if c.Type == "" {
			c.Type = "string"
		}
		out[i] = metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Priority: c.Priority, Description: c.Description,
		}
	}
	return out
}

// Cells implements Table.
func (all Columns[T]) Cells(obj T, now time.Time) []any {
	out := make([]any, len(all))
	for i, c := range all {
		out[i] = c.Cell(obj, now)
	}
	return out
}

// Summarized is a table of which several cells follow from a summary of the object, which is made once for a row.
type Summarized[T, S any] struct {
	Summary func(T) S
	Columns[S]
}

// Cells implements Table.
func (t Summarized[T, S]) Cells(obj T, now time.Time) []any {
	return t.Columns.Cells(t.Summary(obj), now)
}

// NameColumn returns the first column of the table of nearly every kind.
func NameColumn[T interface{ GetName() string }]() Column[T] {
	return Column[T]{
		Name: "Name", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"],
		Cell: func(obj T, _ time.Time) any { return obj.GetName() },
	}
}

// AgeColumn returns the column that shows how old an object is.
func AgeColumn[T created]() Column[T] {
	return Column[T]{
		Name: "Age", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
		Cell: func(obj T, now time.Time) any { return Age(obj.GetCreationTimestamp(), now) },
	}
}

// CreatedColumn returns the column that some kinds have in a cluster instead of the age.
func CreatedColumn[T created]() Column[T] {
	return Column[T]{
		Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
		Cell: func(obj T, _ time.Time) any { return obj.GetCreationTimestamp().UTC().Format(time.RFC3339) },
	}
}

type created interface{ GetCreationTimestamp() metav1.Time }

// Age returns how long ago something was, as kubectl prints it: "5m".
func Age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}
