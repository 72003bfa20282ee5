package cron

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
)

// given is a CronJob and its Jobs: one that starts at every full hour, made at 10:00, looked at some time later.
type given struct {
	cj   *batchv1.CronJob
	jobs []*batchv1.Job
	now  string
	edit func(*Record)
}

func hourly() *given {
	return &given{now: "2024-05-01T11:00:00Z", cj: &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", UID: "cron", CreationTimestamp: metav1.NewTime(at("2024-05-01T10:00:00Z"))},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 * * * *", TimeZone: ptr.To("UTC"), ConcurrencyPolicy: batchv1.AllowConcurrent, Suspend: ptr.To(false),
			SuccessfulJobsHistoryLimit: ptr.To[int32](3), FailedJobsHistoryLimit: ptr.To[int32](1),
		},
	}}
}

func (g *given) job(name string, end batchv1.JobConditionType, started string) *given {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	j.Status.StartTime = ptr.To(metav1.NewTime(at(started)))
	if end != "" {
		j.Status.Conditions = []batchv1.JobCondition{{Type: end, Status: corev1.ConditionTrue}}
	}
	if end == batchv1.JobComplete {
		j.Status.CompletionTime = ptr.To(metav1.NewTime(at(started).Add(time.Minute)))
	}
	g.jobs = append(g.jobs, j)
	return g
}

func (g *given) active(names ...string) *given {
	for _, name := range names {
		g.cj.Status.Active = append(g.cj.Status.Active, corev1.ObjectReference{Name: name, UID: types.UID(name)})
	}
	return g
}

func (g *given) with(edit func(*batchv1.CronJob)) *given { edit(g.cj); return g }
func (g *given) at(now string) *given                    { g.now = now; return g }

func (g *given) decide() Decision {
	r := NewRecord(g.cj)
	for _, j := range g.jobs {
		r.SetJob(j)
	}
	if g.edit != nil {
		g.edit(r)
	}
	return Decide(g.cj, r, at(g.now))
}

// String is a Decision in short: what is started, deleted and said, and when it is looked at again.
func (d Decision) String() string {
	show := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.UTC().Format("02 15:04")
	}
	var deleted, said []string
	for _, j := range d.Delete {
		deleted = append(deleted, j.Name)
	}
	for _, e := range d.Events {
		said = append(said, e.Reason)
	}
	return fmt.Sprintf("start %s, wake %s, delete %v, say %v, %d active", show(d.Start), show(d.Wake), deleted, said, len(d.Status.Active))
}

func TestDecide(t *testing.T) {
	const complete, failed = batchv1.JobComplete, batchv1.JobFailed
	for _, tc := range []struct {
		name  string
		given *given
		want  string
	}{
		{"before the first time it waits", hourly().at("2024-05-01T10:30:00Z"), "start -, wake 01 11:00, delete [], say [], 0 active"},
		{"at the time it starts", hourly(), "start 01 11:00, wake 01 12:00, delete [], say [], 0 active"},
		{"a time is served once", hourly().with(func(cj *batchv1.CronJob) {
			cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(at("2024-05-01T11:00:00Z")))
		}),
			"start -, wake 01 12:00, delete [], say [], 0 active"},
		{"of several missed times the last is made up for", hourly().at("2024-05-01T15:20:00Z"), "start 01 15:00, wake 01 16:00, delete [], say [], 0 active"},
		{
			"of more than 100 too, with a warning", hourly().at("2024-05-08T15:20:00Z"),
			"start 08 15:00, wake 08 16:00, delete [], say [TooManyMissedTimes], 0 active",
		},
		{"a deadline makes them fewer", hourly().at("2024-05-08T15:20:00Z").with(
			func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = ptr.To[int64](7200) },
		),
			"start 08 15:00, wake 08 16:00, delete [], say [], 0 active"},
		{"within startingDeadlineSeconds it starts late", hourly().at("2024-05-01T11:01:40Z").with(
			func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = ptr.To[int64](100) },
		),
			"start 01 11:00, wake 01 12:00, delete [], say [], 0 active"},
		{"after it that start is missed", hourly().at("2024-05-01T11:01:41Z").with(
			func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = ptr.To[int64](100) },
		),
			"start -, wake 01 12:00, delete [], say [MissSchedule], 0 active"},
		{"@every keeps its beat under a short deadline", hourly().at("2024-05-01T11:00:00Z").with(func(cj *batchv1.CronJob) {
			cj.Spec.Schedule, cj.Spec.TimeZone, cj.Spec.StartingDeadlineSeconds = "@every 20m", nil, ptr.To[int64](30)
		}), "start 01 11:00, wake 01 11:20, delete [], say [], 0 active"},
		{"a day that the zone leaves out is skipped", hourly().at("2012-12-31T00:00:00Z").with(func(cj *batchv1.CronJob) {
			cj.Spec.Schedule, cj.Spec.TimeZone = "0 12 30 12 *", ptr.To("Pacific/Apia")
			cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(at("2011-12-01T00:00:00Z")))
		}), "start 29 22:00, wake 29 22:00, delete [], say [], 0 active"},
		{"a last time in the future holds all back", hourly().with(func(cj *batchv1.CronJob) {
			cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(at("2024-05-30T10:00:00Z")))
		}), "start -, wake 30 11:00, delete [], say [], 0 active"},
		{"one Job a minute", hourly().at("2024-05-01T11:00:55Z").with(func(cj *batchv1.CronJob) {
			cj.Spec.Schedule, cj.Spec.TimeZone = "@every 25s", nil
			cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(at("2024-05-01T11:00:05Z")))
		}), "start -, wake 01 11:01, delete [], say [], 0 active"},
		{"and the next in the next minute", hourly().at("2024-05-01T11:01:20Z").with(func(cj *batchv1.CronJob) {
			cj.Spec.Schedule, cj.Spec.TimeZone = "@every 25s", nil
			cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(at("2024-05-01T11:00:05Z")))
		}), "start 01 11:01, wake 01 11:01, delete [], say [], 0 active"},
		{
			"suspended it starts nothing", hourly().with(func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) }),
			"start -, wake -, delete [], say [], 0 active",
		},
		{
			"being deleted it starts nothing",
			hourly().with(func(cj *batchv1.CronJob) { cj.DeletionTimestamp = ptr.To(metav1.Now()) }),
			"start -, wake -, delete [], say [], 0 active",
		},
		{"a changed schedule is not for the past", func() *given {
			g := hourly().at("2024-05-01T15:20:00Z")
			g.edit = func(r *Record) { r.SetCronJob(&batchv1.CronJob{}, at("2024-05-01T15:10:00Z")) }
			return g
		}(), "start -, wake 01 16:00, delete [], say [], 0 active"},

		{
			"Allow starts beside what is active", hourly().job("a", "", "2024-05-01T10:00:00Z").active("a"),
			"start 01 11:00, wake 01 12:00, delete [], say [], 1 active",
		},
		{
			"Forbid does not", hourly().job("a", "", "2024-05-01T10:00:00Z").active("a").with(forbid),
			"start -, wake 01 12:00, delete [], say [JobAlreadyActive], 1 active",
		},
		{"Forbid starts once the other ends", hourly().at("2024-05-01T11:30:00Z").job("a", complete, "2024-05-01T10:00:00Z").active("a").with(forbid),
			"start 01 11:00, wake 01 12:00, delete [], say [SawCompletedJob], 0 active"},
		{"Replace deletes it", hourly().job("a", "", "2024-05-01T10:00:00Z").active("a").with(
			func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent },
		),
			"start 01 11:00, wake 01 12:00, delete [a], say [SuccessfulDelete], 0 active"},

		{"finished Jobs are active no more", hourly().at("2024-05-01T10:30:00Z").job(
			"a", complete, "2024-05-01T10:00:00Z",
		).job("b", failed, "2024-05-01T10:00:00Z").active("a", "b"),
			"start -, wake 01 11:00, delete [], say [SawCompletedJob SawCompletedJob], 0 active"},
		{"nor are those that are gone", hourly().at("2024-05-01T10:30:00Z").active("a"), "start -, wake 01 11:00, delete [], say [MissingJob], 0 active"},
		{
			"a Job of others is told of", hourly().at("2024-05-01T10:30:00Z").job("a", "", "2024-05-01T10:00:00Z"),
			"start -, wake 01 11:00, delete [], say [UnexpectedJob], 0 active",
		},
		{"the oldest finished Jobs go", hourly().at("2024-05-01T10:30:00Z").
			job("c3", complete, "2024-05-01T10:03:00Z").job("c1", complete, "2024-05-01T10:01:00Z").job("c5", complete, "2024-05-01T10:05:00Z").
			job("c2", complete, "2024-05-01T10:02:00Z").job("c4", complete, "2024-05-01T10:04:00Z").
			job("f1", failed, "2024-05-01T10:01:00Z").job("f2", failed, "2024-05-01T10:02:00Z"),
			"start -, wake 01 11:00, delete [c1 c2 f1], say [SuccessfulDelete SuccessfulDelete SuccessfulDelete], 0 active"},
		{"a limit of 0 keeps none", hourly().at("2024-05-01T10:30:00Z").job("a", complete, "2024-05-01T10:01:00Z").with(
			func(cj *batchv1.CronJob) { cj.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0) },
		),
			"start -, wake 01 11:00, delete [a], say [SuccessfulDelete], 0 active"},

		{
			"an unknown zone", hourly().with(func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("Old/Zone") }),
			"start -, wake -, delete [], say [UnknownTimeZone], 0 active",
		},
		{
			"a schedule that is none", hourly().with(func(cj *batchv1.CronJob) { cj.Spec.Schedule = "hourly" }),
			"start -, wake -, delete [], say [UnparseableSchedule], 0 active",
		},
		{
			"a day that never comes", hourly().with(func(cj *batchv1.CronJob) { cj.Spec.Schedule = "0 0 31 2 *" }),
			"start -, wake -, delete [], say [InvalidSchedule], 0 active",
		},
		{"a zone in the schedule", hourly().with(func(cj *batchv1.CronJob) { cj.Spec.Schedule, cj.Spec.TimeZone = "CRON_TZ=Asia/Tokyo 0 20 * * *", nil }),
			"start 01 11:00, wake 02 11:00, delete [], say [UnsupportedSchedule], 0 active"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.given.decide().String(); got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func forbid(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent }

// TestRetriedJobs: a Job that goes on after its end is active again if the CronJob has started it. One that somebody made from
// it by hand is not, so that no concurrencyPolicy ends it.
func TestRetriedJobs(t *testing.T) {
	for _, c := range []struct {
		name, scheduled, want string
	}{
		{"its own", "2024-05-01T10:00:00Z", "start -, wake 01 11:00, delete [], say [SawRetriedJob], 1 active"},
		{"one made by hand", "", "start -, wake 01 11:00, delete [], say [UnexpectedJob], 0 active"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := hourly().at("2024-05-01T10:30:00Z").job("a", "", "2024-05-01T10:00:00Z")
			g.jobs[0].Annotations = map[string]string{batch.AttemptsAnnotation: `[{"attempt":1}]`}
			if c.scheduled != "" {
				g.jobs[0].Annotations[batchv1.CronJobScheduledTimestampAnnotation] = c.scheduled
			}
			if got := g.decide().String(); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestLastSuccessfulTimeOnlyGrows(t *testing.T) {
	g := hourly().job("a", batchv1.JobComplete, "2024-05-01T10:02:00Z").job("b", batchv1.JobComplete, "2024-05-01T10:01:00Z")
	if d := g.decide(); !d.Changed || !d.Status.LastSuccessfulTime.Equal(ptr.To(metav1.NewTime(at("2024-05-01T10:03:00Z")))) {
		t.Errorf("%+v", d.Status)
	}
	g.cj.Status.LastSuccessfulTime = ptr.To(metav1.NewTime(at("2024-05-01T10:09:00Z")))
	g.now = "2024-05-01T10:30:00Z"
	if d := g.decide(); d.Changed {
		t.Errorf("%+v", d.Status)
	}
}

func TestNothingIsSaidTwice(t *testing.T) {
	g := hourly().job("a", "", "2024-05-01T10:00:00Z").job("b", "", "2024-05-01T10:00:00Z").active("a").with(forbid)
	r := NewRecord(g.cj)
	for _, j := range g.jobs {
		r.SetJob(j)
	}
	first := Decide(g.cj, r, at(g.now))
	r.Told(first)
	again := Decide(g.cj, r, at(g.now))
	if len(first.Events) != 2 || len(again.Events) != 0 {
		t.Errorf("first %v, then %v", first, again)
	}
}

func TestNewJob(t *testing.T) {
	g := hourly()
	g.cj.Spec.TimeZone = ptr.To("Europe/Berlin")
	g.cj.Spec.JobTemplate.Labels = map[string]string{"a": "b"}
	g.cj.Spec.JobTemplate.Annotations = map[string]string{"c": "d"}
	g.cj.Spec.JobTemplate.Spec.BackoffLimit = ptr.To[int32](2)
	j, err := NewJob(g.cj, at("2024-05-01T11:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	owner := j.OwnerReferences[0]
	got := []string{
		j.Name, j.Namespace, j.Labels["a"], j.Annotations["c"], j.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"],
		owner.Kind + "/" + owner.Name, fmt.Sprint(*j.Spec.BackoffLimit, *owner.Controller, *owner.BlockOwnerDeletion),
	}
	if want := "c-28576020 n b d 2024-05-01T13:00:00+02:00 CronJob/c 2 true true"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, uid := batch.CronJobOf(j); len(g.cj.Spec.JobTemplate.Annotations) != 1 || uid != "cron" {
		t.Errorf("template %v, controller %q", g.cj.Spec.JobTemplate.Annotations, uid)
	}
	s := &batchv1.CronJobStatus{}
	j.UID = "u"
	for range 2 {
		Started(s, j, "7", at("2024-05-01T11:00:00Z"))
	}
	if !slices.Equal(
		s.Active,
		[]corev1.ObjectReference{{Kind: "Job", APIVersion: "batch/v1", Namespace: "n", Name: "c-28576020", UID: "u", ResourceVersion: "7"}},
	) || s.LastScheduleTime == nil {
		t.Errorf("%+v", s)
	}
}

// TestALifeOfACronJob plays random times, ends of Jobs, edits and restarts, as the loop does.
func TestALifeOfACronJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := hourly()
		g.cj.Spec.Schedule = rapid.SampledFrom([]string{"* * * * *", "*/5 * * * *", "@every 3m"}).Draw(t, "schedule")
		if g.cj.Spec.Schedule[0] == '@' {
			g.cj.Spec.TimeZone = nil
		}
		g.cj.Spec.ConcurrencyPolicy = rapid.SampledFrom(
			[]batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent},
		).Draw(t, "policy")
		jobs, made := map[string]*batchv1.Job{}, map[string]bool{}
		r := NewRecord(g.cj)
		now := g.cj.CreationTimestamp.Time
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
			names := slices.Sorted(maps.Keys(jobs))
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 4 && len(names) > 0: // one ends
				j := jobs[rapid.SampledFrom(names).Draw(t, "ends")]
				if end(j) == "" {
					j.Status.Conditions = []batchv1.JobCondition{
						{
							Type:   rapid.SampledFrom([]batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}).Draw(t, "end"),
							Status: corev1.ConditionTrue,
						},
					}
					r.SetJob(j)
				}
			case what == 4 && len(names) > 0: // one is deleted
				name := rapid.SampledFrom(names).Draw(t, "gone")
				r.DropJob(jobs[name].UID)
				delete(jobs, name)
			case what == 5: // the daemon starts anew
				r = NewRecord(g.cj)
				for _, j := range jobs {
					r.SetJob(j)
				}
			case what == 6:
				g.cj.Spec.Suspend = ptr.To(!*g.cj.Spec.Suspend)
			}
			d := Decide(g.cj, r, now)
			if again := Decide(g.cj, r, now); again.String() != d.String() {
				t.Fatalf("%s, and again %s", d, again)
			}
			r.Told(d)
			for _, j := range d.Delete {
				r.DropJob(j.UID)
				delete(jobs, j.Name)
			}
			g.cj.Status = d.Status
			if !d.Start.IsZero() {
				j, err := NewJob(g.cj, d.Start)
				if err != nil {
					t.Fatal(err)
				}
				if made[j.Name] {
					t.Fatalf("%s is made twice", j.Name)
				}
				if d.Start.After(now) || now.Sub(d.Start) >= 5*time.Minute {
					t.Fatalf("at %v starts that of %v", now, d.Start)
				}
				made[j.Name], jobs[j.Name] = true, j
				j.UID = types.UID(j.Name)
				j.Status.StartTime = ptr.To(metav1.NewTime(now))
				Started(&g.cj.Status, j, "", d.Start)
				r.SetJob(j)
			}
			if d.Wake.IsZero() != *g.cj.Spec.Suspend || !d.Wake.IsZero() && !d.Wake.After(now) {
				t.Fatalf("at %v wakes at %v", now, d.Wake)
			}
			count := map[batchv1.JobConditionType]int{}
			for _, j := range jobs {
				count[end(j)]++
				if active := slices.ContainsFunc(
					g.cj.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == j.UID },
				); active != (end(j) == "") {
					t.Fatalf("%s: active %v, end %q", j.Name, active, end(j))
				}
			}
			if len(g.cj.Status.Active) != count[""] || count[batchv1.JobComplete] > 3 || count[batchv1.JobFailed] > 1 {
				t.Fatalf("%d are active, Jobs %v", len(g.cj.Status.Active), count)
			}
			if g.cj.Spec.ConcurrencyPolicy != batchv1.AllowConcurrent && count[""] > 1 {
				t.Fatalf("%d run at a time", count[""])
			}
		}
	})
}
