package cron

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
)

func annotated(pairs ...string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		if cj.Annotations == nil {
			cj.Annotations = map[string]string{}
		}
		for i := 0; i < len(pairs); i += 2 {
			cj.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func within(seconds int64) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = ptr.To(seconds) }
}

func lastly(s string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(at(s))) }
}

// grouped puts the Jobs of a CronJob into a concurrency group.
func grouped(policy string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		cj.Spec.JobTemplate.Annotations = map[string]string{core.ConcurrencyGroupAnnotation: "db", core.ConcurrencyPolicyAnnotation: policy}
	}
}

// Runs that something else holds back before they start, maybe for ever, do not become more and more.
func TestRunsThatAreHeldBackDoNotPileUp(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*batchv1.CronJob)
		most int
	}{
		"after a Job that has failed": {func(cj *batchv1.CronJob) {
			cj.Spec.JobTemplate.Annotations, cj.Spec.JobTemplate.Spec.Suspend = map[string]string{batch.AfterAnnotation: "failed"}, ptr.To(true)
		}, 10},
		"for a place in a group": {grouped("Queue"), 10},
		// Only what was stored of the Job knows these: it has not begun.
		"for a place in the group of their namespace": {func(*batchv1.CronJob) {}, 10},
		"for their window, which is closed": {func(cj *batchv1.CronJob) {
			cj.Spec.JobTemplate.Annotations = map[string]string{core.WindowAnnotation: "22:00-23:00 Sun"}
			annotated(batch.MissedAnnotation, "all", batch.MissedMaxAnnotation, "3")(cj)
		}, 3},
		"paused": {func(cj *batchv1.CronJob) {
			cj.Spec.JobTemplate.Annotations = map[string]string{batch.PausedAnnotation: "2024-05-01T10:00:00Z"}
		}, 10},
		"as many as are made up for": {func(cj *batchv1.CronJob) {
			grouped("Queue")(cj)
			annotated(batch.MissedAnnotation, "all", batch.MissedMaxAnnotation, "3")(cj)
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			g := hourly().with(c.edit)
			r := NewRecord(g.cj)
			now := at(g.now)
			var jobs []*batchv1.Job
			said := 0
			pass := func() {
				for {
					d := Decide(g.cj, r, now)
					r.Told(d)
					for _, e := range d.Events {
						if e.Reason == "TooManyWaitingJobs" {
							said++
						}
					}
					g.cj.Status = d.Status
					if d.Start.IsZero() {
						return
					}
					j, err := NewJob(g.cj, d.Start)
					if err != nil {
						t.Fatal(err)
					}
					j.UID = types.UID(j.Name)
					jobs = append(jobs, j)
					Started(&g.cj.Status, j, "1", d.Start)
					r.SetJob(j)
				}
			}
			for range 50 {
				pass()
				pass() // a change of something else
				now = now.Add(time.Hour)
			}
			if len(jobs) != c.most || said != 50-c.most {
				t.Fatalf("%d Jobs, want %d; %d of 50 times it is said", len(jobs), c.most, said)
			}
			jobs[0].Spec.Suspend, jobs[0].Status.StartTime = ptr.To(false), ptr.To(metav1.NewTime(now))
			if !r.SetJob(jobs[0]) {
				t.Error("it is not decided anew when one has begun")
			}
			if pass(); len(jobs) != c.most+1 {
				t.Errorf("%d Jobs after one has begun", len(jobs))
			}
		})
	}
}

// What waits for the end of a run costs no look at all times that were missed, however often something else changes.
func TestAWaitingCronJobIsCheap(t *testing.T) {
	cost := func(most string) float64 {
		g := hourly().at("2024-05-09T15:20:00Z").with(forbid).with(annotated(batch.MissedAnnotation, "all", batch.MissedMaxAnnotation, most))
		g.job("a", "", "2024-05-01T12:00:00Z").active("a")
		g.cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(at("2024-05-01T12:00:00Z")))
		r := NewRecord(g.cj)
		r.SetJob(g.jobs[0])
		r.Told(Decide(g.cj, r, at(g.now)))
		return testing.AllocsPerRun(10, func() { Decide(g.cj, r, at(g.now)) })
	}
	if one, all := cost("1"), cost("100"); all > one {
		t.Errorf("a decision takes %v allocations where a hundred times are made up for, and %v where one is", all, one)
	}
}

// What becomes of the hours in which a machine was off, made up for or not.
func TestMissed(t *testing.T) {
	latest, all, none := annotated(batch.MissedAnnotation, "latest"), annotated(batch.MissedAnnotation, "all"), annotated(batch.MissedAnnotation, "none")
	for _, tc := range []struct {
		name  string
		given *given
		want  string
		more  bool
	}{
		{"without a word, the latest", hourly().at("2024-05-01T15:20:00Z"), "start 01 15:00, wake 01 16:00, delete [], say [], 0 active", false},
		{"latest is the same", hourly().at("2024-05-01T15:20:00Z").with(latest), "start 01 15:00, wake 01 16:00, delete [], say [], 0 active", false},
		{"and no complaint about many", hourly().at("2024-05-08T15:20:00Z").with(latest), "start 08 15:00, wake 08 16:00, delete [], say [], 0 active", false},
		{"latest within a deadline", hourly().at("2024-05-01T15:20:00Z").with(latest).with(within(600)),
			"start -, wake 01 16:00, delete [], say [MissSchedule], 0 active", false},

		{"all begins with the first", hourly().at("2024-05-01T15:20:00Z").with(all), "start 01 11:00, wake 01 16:00, delete [], say [], 0 active", true},
		{"goes on with the next", hourly().at("2024-05-01T15:20:00Z").with(all).with(lastly("2024-05-01T11:00:00Z")),
			"start 01 12:00, wake 01 16:00, delete [], say [], 0 active", true},
		{"and ends with the last", hourly().at("2024-05-01T15:20:00Z").with(all).with(lastly("2024-05-01T14:00:00Z")),
			"start 01 15:00, wake 01 16:00, delete [], say [], 0 active", false},
		{"of more than ten the latest ten, and says so", hourly().at("2024-05-02T15:20:00Z").with(all),
			"start 02 06:00, wake 02 16:00, delete [], say [TooManyMissedTimes], 0 active", true},
		{"a maximum of one is the latest", hourly().at("2024-05-01T15:20:00Z").with(all).with(annotated(batch.MissedMaxAnnotation, "1")),
			"start 01 15:00, wake 01 16:00, delete [], say [TooManyMissedTimes], 0 active", false},
		{"no more than a deadline allows", hourly().at("2024-05-01T15:20:00Z").with(all).with(within(2 * 3600)),
			"start 01 14:00, wake 01 16:00, delete [], say [], 0 active", true},
		{"none if it allows none", hourly().at("2024-05-01T15:20:00Z").with(all).with(within(600)),
			"start -, wake 01 16:00, delete [], say [MissSchedule], 0 active", false},
		{"of a beat", hourly().at("2024-05-01T11:00:00Z").with(all).with(func(cj *batchv1.CronJob) { cj.Spec.Schedule, cj.Spec.TimeZone = "@every 25m", nil }),
			"start 01 10:25, wake 01 11:15, delete [], say [], 0 active", true},
		{"Forbid waits for the one before", hourly().at("2024-05-01T15:20:00Z").with(all).with(forbid).job("a", "", "2024-05-01T12:00:00Z").active("a").
			with(lastly("2024-05-01T12:00:00Z")), "start -, wake 01 16:00, delete [], say [JobAlreadyActive], 1 active", false},
		{"and then goes on", hourly().at("2024-05-01T15:20:00Z").with(all).with(forbid).job("a", batchv1.JobComplete, "2024-05-01T12:00:00Z").active("a").
			with(lastly("2024-05-01T12:00:00Z")), "start 01 13:00, wake 01 16:00, delete [], say [SawCompletedJob], 0 active", true},
		{"a group that forbids two at a time is waited for", hourly().at("2024-05-01T15:20:00Z").with(all).with(grouped("Forbid")).
			job("a", "", "2024-05-01T12:00:00Z").active("a").with(lastly("2024-05-01T12:00:00Z")),
			"start -, wake 01 16:00, delete [], say [JobAlreadyActive], 1 active", false},
		{"so is one in which each would replace the one before", hourly().at("2024-05-01T15:20:00Z").with(all).with(grouped("Replace")).
			job("a", "", "2024-05-01T12:00:00Z").active("a").with(lastly("2024-05-01T12:00:00Z")),
			"start -, wake 01 16:00, delete [], say [JobAlreadyActive], 1 active", false},
		{"also if it is that of the namespace", func() *given {
			g := hourly().at("2024-05-01T15:20:00Z").with(all).job("a", "", "2024-05-01T12:00:00Z").active("a").with(lastly("2024-05-01T12:00:00Z"))
			g.edit = func(r *Record) { r.SetNamespacePolicy("Replace") }
			return g
		}(), "start -, wake 01 16:00, delete [], say [JobAlreadyActive], 1 active", false},
		{"a group in which they queue is not", hourly().at("2024-05-01T15:20:00Z").with(all).with(grouped("Queue")).
			job("a", "", "2024-05-01T12:00:00Z").active("a").with(lastly("2024-05-01T12:00:00Z")),
			"start 01 13:00, wake 01 16:00, delete [], say [], 1 active", true},
		{"nor is any without all", hourly().at("2024-05-01T15:20:00Z").with(latest).with(grouped("Replace")).
			job("a", "", "2024-05-01T12:00:00Z").active("a").with(lastly("2024-05-01T12:00:00Z")),
			"start 01 15:00, wake 01 16:00, delete [], say [], 1 active", false},
		{"with Replace each would end the one before: that is refused", hourly().at("2024-05-01T15:20:00Z").with(all).with(
			func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent }),
			"start -, wake -, delete [], say [InvalidAnnotation], 0 active", false},
		{"not for the time before the schedule was changed", func() *given {
			g := hourly().at("2024-05-01T15:20:00Z").with(all)
			g.edit = func(r *Record) { r.SetCronJob(&batchv1.CronJob{}, at("2024-05-01T13:00:00Z")) }
			return g
		}(), "start 01 13:00, wake 01 16:00, delete [], say [], 0 active", true},
		{"suspended, not now", hourly().at("2024-05-01T15:20:00Z").with(all).with(func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) }),
			"start -, wake -, delete [], say [], 0 active", false},
		{"a last time in the future holds all back", hourly().with(all).with(lastly("2024-05-30T10:00:00Z")),
			"start -, wake 30 11:00, delete [], say [], 0 active", false},
		{"the hour that does not come, and its neighbours", hourly().at("2024-03-31T04:30:00Z").with(all).with(lastly("2024-03-30T12:00:00Z")).with(
			func(cj *batchv1.CronJob) {
				cj.Spec.Schedule, cj.Spec.TimeZone = "30 2,3 * * *", ptr.To("Europe/Berlin")
			}),
			"start 31 01:30, wake 01 00:30, delete [], say [], 0 active", false},
		{"the hour that comes twice has two", hourly().at("2024-10-27T12:00:00Z").with(all).with(lastly("2024-10-26T12:00:00Z")).with(
			func(cj *batchv1.CronJob) { cj.Spec.Schedule, cj.Spec.TimeZone = "30 2 * * *", ptr.To("Europe/Berlin") }),
			"start 27 00:30, wake 28 01:30, delete [], say [], 0 active", true},
		{"the second of them", hourly().at("2024-10-27T12:00:00Z").with(all).with(lastly("2024-10-27T00:30:00Z")).with(
			func(cj *batchv1.CronJob) { cj.Spec.Schedule, cj.Spec.TimeZone = "30 2 * * *", ptr.To("Europe/Berlin") }),
			"start 27 01:30, wake 28 01:30, delete [], say [], 0 active", false},

		{"none starts what is due", hourly().with(none), "start 01 11:00, wake 01 12:00, delete [], say [], 0 active", false},
		{"also a minute later, after a restart", hourly().at("2024-05-01T11:01:00Z").with(none),
			"start 01 11:00, wake 01 12:00, delete [], say [], 0 active", false},
		{"but not later", hourly().at("2024-05-01T11:01:01Z").with(none), "start -, wake 01 12:00, delete [], say [MissSchedule], 0 active", false},
		{"unless a deadline says so", hourly().at("2024-05-01T11:01:41Z").with(none).with(within(101)),
			"start 01 11:00, wake 01 12:00, delete [], say [], 0 active", false},
		{"nor once another Job has ended", hourly().at("2024-05-01T11:30:00Z").job("a", batchv1.JobComplete, "2024-05-01T10:00:00Z").active("a").with(forbid).
			with(none), "start -, wake 01 12:00, delete [], say [SawCompletedJob MissSchedule], 0 active", false},

		{"what has no meaning", hourly().with(annotated(batch.MissedAnnotation, "some")),
			"start -, wake -, delete [], say [InvalidAnnotation], 0 active", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := tc.given.decide()
			if got := d.String(); got != tc.want || d.More != tc.more {
				t.Errorf("\n got %s, more %v\nwant %s", got, d.More, tc.want)
			}
		})
	}
}

// The jitter of c in n is 9m43s of ten minutes.
func TestJitter(t *testing.T) {
	jitter := annotated(batch.JitterAnnotation, "10m")
	for _, tc := range []struct {
		name  string
		given *given
		want  string
	}{
		{"before its time it waits for its place", hourly().at("2024-05-01T10:30:00Z").with(jitter), "start -, wake 01 11:09:43"},
		{"at its time too", hourly().at("2024-05-01T11:09:42Z").with(jitter), "start -, wake 01 11:09:43"},
		{"then it starts, for its time", hourly().at("2024-05-01T11:09:43Z").with(jitter), "start 01 11:00:00, wake 01 12:09:43"},
		{"once", hourly().at("2024-05-01T11:09:44Z").with(jitter).with(lastly("2024-05-01T11:00:00Z")), "start -, wake 01 12:09:43"},
		{"a deadline is counted from its place", hourly().at("2024-05-01T11:10:13Z").with(jitter).with(within(30)), "start 01 11:00:00, wake 01 12:09:43"},
		{"and ends", hourly().at("2024-05-01T11:10:14Z").with(jitter).with(within(30)), "start -, wake 01 12:09:43"},
		{"a jitter longer than the beat", hourly().at("2024-05-01T11:09:50Z").with(jitter).with(func(cj *batchv1.CronJob) { cj.Spec.Schedule = "* * * * *" }),
			"start 01 11:00:00, wake 01 11:10:43"},
		{"missed ones as well", hourly().at("2024-05-01T13:05:00Z").with(jitter).with(annotated(batch.MissedAnnotation, "all")),
			"start 01 11:00:00, wake 01 13:09:43"},
		{"taken away, what waited starts", hourly().at("2024-05-01T11:02:00Z"), "start 01 11:00:00, wake 01 12:00:00"},
		{"of a schedule that has been changed meanwhile, it does not", func() *given {
			g := hourly().at("2024-05-01T11:09:43Z").with(jitter)
			g.edit = func(r *Record) { r.SetCronJob(&batchv1.CronJob{}, at("2024-05-01T11:03:00Z")) }
			return g
		}(), "start -, wake 01 12:09:43"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := tc.given.decide()
			show := func(t time.Time) string {
				if t.IsZero() {
					return "-"
				}
				return t.UTC().Format("02 15:04:05")
			}
			if got := fmt.Sprintf("start %s, wake %s", show(d.Start), show(d.Wake)); got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestSeveralSchedules(t *testing.T) {
	several := annotated(batch.SchedulesAnnotation, "30 * * * *; 0 12 * * *")
	for _, tc := range []struct {
		name  string
		given *given
		want  string
	}{
		{"the first of any", hourly().at("2024-05-01T10:10:00Z").with(several), "start -, wake 01 10:30, delete [], say [], 0 active"},
		{"then the next of any", hourly().at("2024-05-01T10:30:00Z").with(several), "start 01 10:30, wake 01 11:00, delete [], say [], 0 active"},
		{"two at once are one", hourly().at("2024-05-01T12:00:00Z").with(several).with(lastly("2024-05-01T11:30:00Z")),
			"start 01 12:00, wake 01 12:30, delete [], say [], 0 active"},
		{"and that is all", hourly().at("2024-05-01T12:00:01Z").with(several).with(lastly("2024-05-01T12:00:00Z")),
			"start -, wake 01 12:30, delete [], say [], 0 active"},
		{"one that never comes is no harm", hourly().at("2024-05-01T10:10:00Z").with(annotated(batch.SchedulesAnnotation, "0 0 30 2 *")),
			"start -, wake 01 11:00, delete [], say [], 0 active"},
		{"in the zone of the CronJob", hourly().at("2024-05-01T10:10:00Z").with(annotated(batch.SchedulesAnnotation, "15 12 * * *")).with(
			func(cj *batchv1.CronJob) { cj.Spec.Schedule, cj.Spec.TimeZone = "0 0 * * *", ptr.To("Europe/Berlin") }),
			"start -, wake 01 10:15, delete [], say [], 0 active"},
		{"a further one is not for the past", func() *given {
			g := hourly().at("2024-05-01T11:10:00Z").with(lastly("2024-05-01T10:00:00Z"))
			g.edit = func(r *Record) {
				annotated(batch.SchedulesAnnotation, "5 * * * *")(g.cj)
				r.SetCronJob(g.cj, at("2024-05-01T11:10:00Z"))
			}
			return g
		}(), "start -, wake 01 12:00, delete [], say [], 0 active"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.given.decide().String(); got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestEachMissedTimeRunsOnce plays a machine that is off now and then, a daemon that is started anew, a clock that jumps and Jobs that
// end late. Each time has one Job at most, in the order of times, and none is left out but those beyond the maximum.
func TestEachMissedTimeRunsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := hourly().with(annotated(batch.MissedAnnotation, "all"))
		most := rapid.IntRange(1, 12).Draw(t, "max")
		annotated(batch.MissedMaxAnnotation, fmt.Sprint(most))(g.cj)
		g.cj.Spec.Schedule = rapid.SampledFrom([]string{"*/10 * * * *", "0,1,7 * * * *"}).Draw(t, "schedule")
		if rapid.Bool().Draw(t, "several") {
			annotated(batch.SchedulesAnnotation, "*/15 * * * *; 3 * * * *")(g.cj)
		}
		if rapid.Bool().Draw(t, "jitter") {
			annotated(batch.JitterAnnotation, "20m")(g.cj)
		}
		forbids := rapid.Bool().Draw(t, "forbid")
		if forbids {
			forbid(g.cj)
		}
		jobs := map[string]*batchv1.Job{}
		r := NewRecord(g.cj)
		now, begin := g.cj.CreationTimestamp.Time, g.cj.CreationTimestamp.Time
		type start struct{ at, now time.Time }
		var started []start
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			off := rapid.IntRange(0, 9).Draw(t, "off") == 0
			switch { // the machine is off, the clock is set back, or some time goes by
			case off:
				now = now.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "minutes")) * time.Minute)
				r = NewRecord(g.cj)
				for _, j := range jobs {
					r.SetJob(j)
				}
			case rapid.IntRange(0, 9).Draw(t, "back") == 0:
				now = now.Add(-time.Duration(rapid.IntRange(1, 90).Draw(t, "minutes back")) * time.Minute)
			default:
				now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(t, "seconds")) * time.Second)
			}
			for _, name := range slices.Sorted(maps.Keys(jobs)) {
				if j := jobs[name]; end(j) == "" && rapid.Bool().Draw(t, "ends") {
					j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
					r.SetJob(j)
				}
			}
			for n := 0; ; n++ { // as the loop does while there is more
				d := Decide(g.cj, r, now)
				r.Told(d)
				g.cj.Status = d.Status
				if n > most {
					t.Fatalf("%d starts at once, of no more than %d", n, most)
				}
				if d.Start.IsZero() {
					if d.More {
						t.Fatal("there is more, and nothing is started")
					}
					break
				}
				if d.Start.Add(d.Late).After(now) {
					t.Fatalf("%v is started at %v", d.Start, now)
				}
				if len(started) > 0 && !d.Start.After(started[len(started)-1].at) {
					t.Fatalf("%v is started after %v", d.Start, started[len(started)-1].at)
				}
				if forbids && len(g.cj.Status.Active) > 0 {
					t.Fatal("Forbid has two")
				}
				started = append(started, start{d.Start, now})
				j, err := NewJob(g.cj, d.Start)
				if err != nil || jobs[j.Name] != nil {
					t.Fatalf("%s, %v", j.Name, err)
				}
				j.UID = types.UID(j.Name)
				j.Status.StartTime = ptr.To(metav1.NewTime(now))
				jobs[j.Name] = j
				Started(&g.cj.Status, j, "1", d.Start)
				r.SetJob(j)
			}
		}
		said, _ := batch.CronJobTimesOf(g.cj)
		p, _ := planOf(g.cj, said)
		from := begin
		for _, s := range started {
			due, _ := p.Newest(s.at.Add(-time.Second), time.Time{}, s.now.Add(-p.Offset), 100)
			if left := p.Next(from); left.Before(s.at) && len(due) != most {
				t.Fatalf("%v was left out although only %d times were due from %v on", left, len(due), s.at)
			}
			from = s.at
		}
	})
}
