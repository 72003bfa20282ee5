package hold

import (
	"fmt"
	"time"

	"github.com/jobd/jobd/api/batch"
)

// promptly is how late a Job may be resumed without a word: a pass takes some time, and the times of people are minutes.
const promptly = time.Minute

// resumed returns what an event says of a Job that is resumed at now.
func resumed(w *waiter, outcomes []Outcome, now time.Time) (reason, message string) {
	switch {
	case w.at.IsZero():
		return "NeedsMet", told(w.needs, outcomes)
	case len(w.needs) > 0:
		return "NeedsMet", fmt.Sprintf("%s, and its time %s has come (%s)", told(w.needs, outcomes), w.at.Format(time.RFC3339), batch.StartAtAnnotation)
	}
	message = fmt.Sprintf("Its time %s has come (%s)", w.at.Format(time.RFC3339), batch.StartAtAnnotation)
	from := w.at
	if w.created.After(from) {
		from = w.created
	}
	if late := now.Sub(from); late > promptly {
		message += fmt.Sprintf(", %s ago: jobd did not run then", late.Round(time.Second))
	}
	return "StartTime", message
}
