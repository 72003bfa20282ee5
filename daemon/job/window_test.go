package job

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
)

// inWindow is a Job of two pods, one after the other, with a window. It is 13:33:11.
func inWindow(text, end string) *batchv1.Job {
	job := newJob(func(s *batchv1.JobSpec) {
		s.Completions, s.ActiveDeadlineSeconds = ptr.To[int32](2), ptr.To[int64](3600)
	})
	if text != "" {
		job.Annotations = map[string]string{core.WindowAnnotation: text, core.WindowTimeZoneAnnotation: "UTC", core.WindowEndAnnotation: end}
	}
	return job
}

// clock lets time go by until a time of the day.
func (w *world) clock(to string) {
	at, err := time.Parse(time.TimeOnly, to)
	if err != nil {
		panic(err)
	}
	w.pass(at.Sub(time.Date(0, 1, 1, w.now.Hour(), w.now.Minute(), w.now.Second(), w.now.Nanosecond(), time.UTC)))
}

// shown returns the conditions without the domain of those that a cluster does not have.
func (w *world) shown() string { return strings.ReplaceAll(w.conditions(), "jobd.dev/", "") }

func TestWindow(t *testing.T) {
	const closed = `Outside of its window 14:00-15:00 (UTC), which opens at 2026-11-20T14:00:00Z`
	for rule, test := range map[string]func(t *testing.T){
		"nothing begins before it opens": func(t *testing.T) {
			w := newWorld(someTime, inWindow("14:00-15:00", core.WindowFinish))
			w.settle()
			if w.shown() != "WindowClosed=True WindowClosed" || w.record.WindowClosed() == "" || w.job.Status.StartTime != nil || len(w.pods) > 0 {
				t.Fatal(describe(&w.job.Status))
			}
			w.clock("13:59:59")
			if len(w.revisions) != 1 || !slices.Equal(w.reasons(), []string{"WindowClosed"}) {
				t.Errorf("%v, %v", w.revisions, w.reasons())
			}
			w.clock("14:00:00")
			if w.shown() != "WindowClosed=False WindowOpen" || w.record.WindowClosed() != "" || len(w.pods) != 1 {
				t.Error(describe(&w.job.Status))
			}
			// That it is open is stored before anything begins.
			if s := w.revisions[1].JobStatus; s.StartTime != nil || s.Active != 0 || w.revisions[2].StartTime == nil {
				t.Error(describe(&s))
			}
			if !slices.Equal(w.reasons(), []string{"WindowClosed", "WindowOpen", "SuccessfulCreate"}) {
				t.Error(w.reasons())
			}
		},
		"what runs when it closes may end": func(t *testing.T) {
			w := newWorld(someTime, inWindow("13:00-14:00", core.WindowFinish))
			w.settle()
			w.startAll()
			w.clock("14:00:00")
			if w.shown() != "WindowClosed=True WindowClosed" || len(w.names()) != 1 {
				t.Fatal(describe(&w.job.Status))
			}
			why, opens := w.record.OutsideWindow(w.now)
			if want := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC); !opens.Equal(want) || !strings.Contains(why, "2026-11-21T13:00:00Z") {
				t.Errorf("%s, %s", why, opens)
			}
			w.end(w.names()[0], 0)
			w.settle()
			w.startAll() // whoever binds pods asks OutsideWindow
			w.end(w.names()[0], 0)
			w.settle()
			if w.shown() != "WindowClosed=False JobEnded, SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached" {
				t.Error(w.shown())
			}
			if why := w.record.WindowClosed(); why != "" {
				t.Error(why)
			}
		},
		"it stands still until it opens again": func(t *testing.T) {
			w := newWorld(someTime, inWindow("13:00-14:00,15:00-16:00", core.WindowPause))
			w.settle()
			w.startAll()
			w.clock("14:30:00")
			if w.shown() != "Paused=True "+batch.PausedByUser+", WindowClosed=True WindowClosed" || !w.record.Paused() || len(w.names()) != 1 {
				t.Fatal(describe(&w.job.Status))
			}
			if at := w.record.Deadline(); !at.IsZero() {
				t.Error(at)
			}
			w.clock("15:00:00")
			if w.shown() != "Paused=False JobContinued, WindowClosed=False WindowOpen" || w.record.PausedFor() != time.Hour {
				t.Error(w.record.PausedFor(), describe(&w.job.Status))
			}
			if at, want := w.record.Deadline(), time.Date(2026, 11, 20, 15, 33, 11, 0, time.UTC); !at.Equal(want) {
				t.Errorf("deadline at %s, want %s", at, want)
			}
			if !slices.Equal(w.reasons(), []string{"SuccessfulCreate", "Paused", "WindowClosed", "Continued", "WindowOpen"}) {
				t.Error(w.reasons())
			}
		},
		"it is stopped, and begins anew": func(t *testing.T) {
			w := newWorld(someTime, inWindow("13:00-14:00,15:00-16:00", core.WindowStop))
			w.settle()
			w.startAll()
			w.clock("14:30:00")
			if w.shown() != "Suspended=True JobSuspended, WindowClosed=True WindowClosed" || w.job.Status.StartTime != nil || len(w.names()) > 0 {
				t.Fatal(describe(&w.job.Status))
			}
			w.clock("15:00:00")
			if w.shown() != "Suspended=False JobResumed, WindowClosed=False WindowOpen" || len(w.names()) != 1 {
				t.Error(describe(&w.job.Status))
			}
			if start := w.job.Status.StartTime; start == nil || !start.Time.Equal(w.now) {
				t.Error(describe(&w.job.Status))
			}
		},
		"another window counts at once": func(t *testing.T) {
			w := newWorld(someTime, inWindow("14:00-15:00", core.WindowFinish))
			w.settle()
			w.edit(func(j *batchv1.Job) { j.Annotations[core.WindowAnnotation] = "16:00-17:00" })
			w.settle()
			if c, opens := batch.WindowClosed(&w.job.Status); c == nil || opens.Hour() != 16 || len(w.events) != 1 {
				t.Errorf("%v, %v", c, w.reasons())
			}
			w.edit(func(j *batchv1.Job) { j.Annotations[core.WindowAnnotation] = "13:00-17:00" })
			if w.settle(); w.shown() != "WindowClosed=False WindowOpen" || len(w.pods) != 1 {
				t.Error(describe(&w.job.Status))
			}
			delete(w.job.Annotations, core.WindowAnnotation)
			w.edit(func(j *batchv1.Job) { j.Annotations = nil })
			if w.record.Window() != nil {
				t.Error(w.record.Window())
			}
		},
		"that of the namespace counts for who has none": func(t *testing.T) {
			night := core.WindowOf(inWindow("14:00-15:00", core.WindowFinish).Annotations)
			w := newWorld(someTime, inWindow("", ""))
			w.record.Inherit(night)
			if w.settle(); len(w.pods) > 0 || w.record.WindowClosed() != closed {
				t.Error(w.record.WindowClosed(), describe(&w.job.Status))
			}
			w.record.Inherit(nil)
			if w.settle(); len(w.pods) != 1 || w.shown() != "WindowClosed=False WindowOpen" {
				t.Error(describe(&w.job.Status))
			}
			w = newWorld(someTime, inWindow("13:00-14:00", core.WindowFinish))
			w.record.Inherit(night)
			if w.settle(); len(w.pods) != 1 || w.shown() != "" {
				t.Error(describe(&w.job.Status))
			}
		},
		"a Job that is suspended shows both": func(t *testing.T) {
			job := inWindow("14:00-15:00", core.WindowFinish)
			job.Spec.Suspend = ptr.To(true)
			w := newWorld(someTime, job)
			if w.settle(); w.shown() != "Suspended=True JobSuspended, WindowClosed=True WindowClosed" {
				t.Error(w.shown())
			}
		},
		"a Job that is being deleted shows none": func(t *testing.T) {
			w := newWorld(someTime, inWindow("13:00-14:00", core.WindowFinish))
			w.settle()
			w.startAll()
			w.clock("14:00:00")
			at := *w.job.Status.StartTime
			w.edit(func(j *batchv1.Job) { j.DeletionTimestamp = &at })
			if w.settle(); w.record.WindowClosed() != "" || w.shown() != "WindowClosed=False WindowOpen" {
				t.Error(w.shown())
			}
		},
	} {
		t.Run(rule, test)
	}
}
