package simulation

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// What waits for ever ends a simulation though its window goes on to open and to close, and the window of a namespace is followed.
func TestAWindowDoesNotKeepASimulationGoing(t *testing.T) {
	begin := time.Date(2026, 11, 27, 0, 30, 0, 0, time.UTC)
	night := map[string]string{core.WindowAnnotation: "01:00-02:00", core.WindowTimeZoneAnnotation: "UTC"}
	stuck := newJob(batchv1.JobSpec{Parallelism: ptr.To[int32](0)})
	stuck.Annotations = night
	r, err := Run(Config{Job: stuck, Begin: begin, Behave: func(Start) End { return Default }})
	if err != nil || r.Finished || r.Stuck != "its parallelism is 0, so it has no pods" {
		t.Errorf("%v, %s", err, r.Stuck)
	}
	j, later := newJob(batchv1.JobSpec{}), newJob(batchv1.JobSpec{Suspend: ptr.To(true)})
	later.Name, later.UID = "later", "later"
	later.Annotations = map[string]string{batch.StartAtAnnotation: "2026-11-27T03:00:00Z", core.WindowAnnotation: "00:00-24:00"}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: j.Namespace, Annotations: night}}
	r, err = Run(Config{Job: j, More: []*batchv1.Job{later}, Namespaces: []*corev1.Namespace{ns}, Begin: begin, Behave: func(Start) End { return Default }})
	if err != nil {
		t.Fatal(err)
	}
	for i, starts := range []time.Duration{30 * time.Minute, 150 * time.Minute} {
		if s := r.Jobs[i].Status; !r.Jobs[i].Finished || s.StartTime == nil || s.StartTime.Sub(begin) != starts {
			t.Errorf("%s: %+v\n%s", r.Jobs[i].Name, s, r.Text())
		}
	}
}

// A window delays pods, freezes or stops those that run, as the daemon does it.
func TestAWindowIsPlayed(t *testing.T) {
	for end, want := range map[string]time.Duration{
		core.WindowFinish: 25*time.Hour + 40*time.Minute, // the first runs until 02:10, the second from 01:00 on
		core.WindowPause:  48*time.Hour + 50*time.Minute, // ten minutes of the first, and twenty of the second, are left to the next day
		core.WindowStop:   48*time.Hour + 50*time.Minute, // two are stopped, and the next two are short
	} {
		j := newJob(batchv1.JobSpec{Completions: ptr.To[int32](2), Parallelism: ptr.To[int32](1), BackoffLimit: ptr.To[int32](0)})
		j.Annotations = map[string]string{core.WindowAnnotation: "01:00-02:00", core.WindowTimeZoneAnnotation: "UTC", core.WindowEndAnnotation: end}
		behave := func(s Start) End {
			if end == core.WindowStop && s.Pod > 2 {
				return End{After: 10 * time.Minute}
			}
			return End{After: 70 * time.Minute}
		}
		r, err := Run(Config{Job: j, Begin: time.Date(2026, 11, 27, 0, 30, 0, 0, time.UTC), Behave: behave})
		if err != nil {
			t.Fatal(err)
		}
		text := r.Text()
		if !r.Finished || r.Took != want || !strings.Contains(text, "Outside of its window 01:00-02:00 (UTC), which opens at 2026-11-27T01:00:00Z") {
			t.Errorf("%s takes %s, and should %s:\n%s", end, r.Took, want, text)
		}
	}
}
