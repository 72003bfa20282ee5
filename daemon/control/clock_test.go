package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
)

func withTTL(name string, seconds int32) *batchv1.Job {
	j := controltest.Simulate(name, "1s", "0")
	j.Spec.TTLSecondsAfterFinished = &seconds
	return j
}

func TestTTLFollowsTheClock(t *testing.T) {
	for rule, run := range map[string]func(*testing.T, *world){
		"set forward beyond the end of the TTL, the Job goes at once": func(t *testing.T, w *world) {
			w.SetClock(100 * time.Second)
			if w.Job("j") != nil {
				t.Error("it is there")
			}
		},
		"set forward by less, it goes sooner by that": func(t *testing.T, w *world) {
			w.SetClock(60 * time.Second)
			time.Sleep(30 * time.Second)
			if w.Job("j") == nil {
				t.Error("gone early")
			}
			time.Sleep(11 * time.Second)
			if w.Job("j") != nil {
				t.Error("it is there")
			}
		},
		"set back, it stays longer by that": func(t *testing.T, w *world) {
			w.SetClock(-time.Hour)
			time.Sleep(time.Hour + 90*time.Second)
			if w.Job("j") == nil {
				t.Error("gone early")
			}
			time.Sleep(11 * time.Second)
			if w.Job("j") != nil {
				t.Error("it is there")
			}
		},
		"set back and forth again, it goes when it should have": func(t *testing.T, w *world) {
			w.SetClock(-time.Hour)
			w.SetClock(0)
			time.Sleep(90 * time.Second)
			if w.Job("j") == nil {
				t.Error("gone early")
			}
			time.Sleep(11 * time.Second)
			if w.Job("j") != nil {
				t.Error("it is there")
			}
		},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				w.Create(withTTL("j", 100))
				time.Sleep(2 * time.Second)
				run(t, w)
			})
		})
	}
}

func TestTTLChangedAfterTheFinish(t *testing.T) {
	for rule, tc := range map[string]struct {
		before, after *int32
		wait          time.Duration
		gone          bool
	}{
		"shorter than the time that has passed: at once":    {ptr.To[int32](1000), ptr.To[int32](5), 0, true},
		"shorter: it counts from the finish":                {ptr.To[int32](1000), ptr.To[int32](60), 51 * time.Second, true},
		"not sooner":                                        {ptr.To[int32](1000), ptr.To[int32](60), 49 * time.Second, false},
		"longer: the first end does not matter any more":    {ptr.To[int32](20), ptr.To[int32](1000), 500 * time.Second, false},
		"longer: then it goes":                              {ptr.To[int32](20), ptr.To[int32](1000), 1000 * time.Second, true},
		"taken away: it stays":                              {ptr.To[int32](20), nil, 24 * time.Hour, false},
		"given to a Job that has finished without: it goes": {nil, ptr.To[int32](20), 11 * time.Second, true},
		"given, and over already: at once":                  {nil, ptr.To[int32](0), 0, true},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				j := controltest.Simulate("j", "1s", "0")
				j.Spec.TTLSecondsAfterFinished = tc.before
				w.Create(j)
				time.Sleep(11 * time.Second) // 10 after the finish
				done := w.Job("j")
				done.Spec.TTLSecondsAfterFinished = tc.after
				w.Put(objects.Key(objects.Jobs, done), done)
				time.Sleep(tc.wait)
				if gone := w.Job("j") == nil; gone != tc.gone {
					t.Errorf("gone: %v, want %v", gone, tc.gone)
				}
			})
		})
	}
}

func TestADeadlineFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		j := controltest.Simulate("j", "1h", "0")
		j.Spec.ActiveDeadlineSeconds = ptr.To[int64](600)
		w.Create(j)
		time.Sleep(time.Second)
		w.SetClock(time.Hour)
		time.Sleep(time.Minute) // for its pod to end
		if got := w.Job("j"); !objects.Finished(got) || batch.End(&got.Status).Reason != batchv1.JobReasonDeadlineExceeded {
			t.Errorf("%+v", got.Status)
		}
	})
}
