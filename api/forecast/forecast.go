// Package forecast is the format in which jobd says when a Job is expected to start and to end: a part of what GET .../jobs/NAME/why
// and .../jobs/NAME/picture answer with, and the column EXPECTED of kubectl get jobs -o wide.
package forecast

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Forecast is when a Job is expected to start, if it waits, and to end. What nobody knows is nil.
type Forecast struct {
	Starts *Expected `json:"starts,omitempty"`
	Ends   *Expected `json:"ends,omitempty"`
	// Unknown is why nobody knows when a Job starts that waits for others, or for a place in its group: a part of a sentence.
	Unknown string `json:"unknown,omitempty"`
}

// What an expectation is based on, the surest first.
const (
	// StartTime: it was said when it starts (jobd.dev/start-at).
	StartTime = "StartTime"
	// Window: it is outside of its window until then (jobd.dev/window).
	Window = "Window"
	// Deadline: it is so at the latest, by activeDeadlineSeconds of what runs.
	Deadline = "Deadline"
	// Rate: it goes on as it has so far.
	Rate = "Rate"
	// History: it takes as long as earlier runs of the same name.
	History = "History"
)

// Expected is when something is expected.
type Expected struct {
	At    metav1.Time `json:"at"`
	Basis string      `json:"basis"`
	// Runs is how many ends that is based on: of pods of this Job for Rate, of earlier runs for History. Of several Jobs it is the least.
	Runs int `json:"runs,omitempty"`
}

// Clock returns the time as people read it: with the day if that is another one, and with the year if the day alone may be taken for
// that of another year.
func (e *Expected) Clock(now time.Time) string {
	const halfAYear = 183 * 24 * time.Hour
	at := e.At.Local()
	day := now.Local()
	switch {
	case at.Year() == day.Year() && at.YearDay() == day.YearDay():
		return at.Format("15:04")
	case at.Sub(day).Abs() > halfAYear:
		return at.Format("2006-01-02 15:04")
	}
	return at.Format("Jan 2 15:04")
}

// Brief says it in a few words: "expected at 14:20 (12 earlier runs)".
func (e *Expected) Brief(now time.Time) string {
	when := "expected at "
	if e.Basis == Deadline {
		when = "expected by "
	}
	return when + e.Clock(now) + " (" + e.Sure() + ")"
}

// Sure says in a few words what it is based on.
func (e *Expected) Sure() string {
	switch e.Basis {
	case StartTime:
		return "jobd.dev/start-at"
	case Window:
		return "when its window opens"
	case Deadline:
		return "by deadline"
	case Rate:
		return fmt.Sprintf("at the rate of %d so far", e.Runs)
	}
	if e.Runs == 1 {
		return "1 earlier run"
	}
	return fmt.Sprintf("%d earlier runs", e.Runs)
}

// Cell returns what is expected next for a column of a table, "start 14:20 (12 earlier runs)"; empty if nothing is.
func (f *Forecast) Cell(now time.Time) string {
	what, e := "start ", (*Expected)(nil)
	switch {
	case f == nil:
		return ""
	case f.Starts != nil:
		e = f.Starts
	default:
		what, e = "end ", f.Ends
	}
	if e == nil {
		return ""
	}
	return what + e.Clock(now) + " (" + e.Sure() + ")"
}

// Brief returns what is expected next, in a few words: "end expected at 14:20 (12 earlier runs)". It is empty if nothing is.
func (f *Forecast) Brief(now time.Time) string {
	switch {
	case f == nil:
	case f.Starts != nil:
		return "start " + f.Starts.Brief(now)
	case f.Ends != nil:
		return "end " + f.Ends.Brief(now)
	case f.Unknown != "":
		return "start unknown: " + f.Unknown
	}
	return ""
}
