package causes

import (
	"fmt"
	"time"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/why"
)

// jobStartAt is the time at which the Job is resumed (batch.StartAtAnnotation).
func jobStartAt(v *jobView) []why.Cause {
	at, ok := batch.StartAt(v.job.Annotations)
	if !ok || !v.awaits() || !batch.AwaitsTime(v.job) || !at.After(v.Now) {
		return nil
	}
	also := ""
	if batch.AwaitsJobs(v.job) {
		also = " It waits for other Jobs too."
	}
	text := at.Format(time.RFC3339)
	return []why.Cause{{
		Type: "AwaitsTime", Brief: "starts at " + text,
		Message: fmt.Sprintf("It is suspended until %s, when jobd resumes it (%s).%s", text, batch.StartAtAnnotation, also),
		Details: map[string]string{"at": text}, Help: []string{v.resume()},
	}}
}
