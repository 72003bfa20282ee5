package simulation

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
)

// A Job that waits for others is played from the moment in which they have ended; one that somebody has suspended is not played.
func TestAHeldJobIsPlayed(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		says        string
		finishes    bool
	}{
		"waits":           {map[string]string{batch.AfterAnnotation: "prep,check:any"}, "waits for prep to complete, check to end (jobd.dev/after)", true},
		"a time":          {map[string]string{batch.StartAtAnnotation: "2023-11-14T23:13:20Z"}, "1h0m0s", true},
		"a group":         {map[string]string{core.ConcurrencyGroupAnnotation: "db"}, "needs a place in the concurrency group db (limit 1), and waits if", true},
		"suspended again": {map[string]string{batch.AfterAnnotation: "prep", batch.ResumedAnnotation: "2026-01-01T00:00:00Z"}, "it is suspended", false},
	} {
		j := newJob(batchv1.JobSpec{Suspend: ptr.To(batch.HeldBy(c.annotations) != "")})
		j.Annotations = c.annotations
		r, err := Run(Config{Job: j, Begin: time.Unix(1_700_000_000, 0), Behave: func(Start) End { return Default }})
		if err != nil {
			t.Fatal(err)
		}
		if text := r.Text(); !strings.Contains(text, c.says) || r.Finished != c.finishes {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
