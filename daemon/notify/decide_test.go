package notify

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/notices"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// job is a Job that was created at the beginning.
func job(change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{}
	j.Namespace, j.Name, j.UID, j.CreationTimestamp = "team", "train", "u", metav1.NewTime(begin)
	for _, c := range change {
		c(j)
	}
	return j
}

func ready(j *batchv1.Job) { j.Status.Ready = ptr.To(int32(1)) }

func ends(t batchv1.JobConditionType) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
			Type: t, Status: corev1.ConditionTrue, Reason: "Why", Message: "since", LastTransitionTime: metav1.NewTime(begin.Add(time.Minute)),
		})
		if t == batchv1.JobComplete {
			j.Status.Succeeded = 1
		}
	}
}

func TestDecide(t *testing.T) {
	first := Seen{Attempt: 1}
	overdue := begin.Add(-time.Hour)
	cases := []struct {
		name   string
		was    Seen
		job    *batchv1.Job
		memory Memory
		now    time.Duration // after the beginning
		want   string
		then   Memory
	}{
		{"nothing yet", first, job(), Memory{}, time.Hour, "", Memory{}},
		{"a start in time", first, job(ready), Memory{}, time.Minute, "started", Memory{}},
		{"a start that is late", first, job(ready), Memory{}, 11 * time.Minute, "started started-late", Memory{}},
		{"a pod that has failed, among others", Seen{true, false, 1}, job(ready, func(j *batchv1.Job) { j.Status.Failed = 5 }), Memory{}, 0, "", Memory{}},
		{"a failure", Seen{true, false, 1}, job(ends(batchv1.JobFailed)), Memory{}, 0, "failed", Memory{Failed: true}},
		{"another failure", Seen{true, false, 1}, job(ends(batchv1.JobFailed)), Memory{Failed: true}, 0, "failed", Memory{Failed: true}},
		{"a success", Seen{true, false, 1}, job(ends(batchv1.JobComplete)), Memory{}, 0, "finished", Memory{}},
		{"a success after a failure", Seen{true, false, 1}, job(ends(batchv1.JobComplete)), Memory{Failed: true}, 0, "recovered", Memory{}},
		{"a success that was overdue", Seen{true, false, 1}, job(ends(batchv1.JobComplete)), Memory{Overdue: &overdue}, 0, "recovered", Memory{}},
		{"start and success at once", first, job(ends(batchv1.JobComplete)), Memory{}, 0, "started finished", Memory{}},
		{"refused before any pod", first, job(ends(batchv1.JobFailed)), Memory{}, 0, "failed", Memory{Failed: true}},
		{"an end that is known", Seen{true, true, 1}, job(ends(batchv1.JobFailed)), Memory{Failed: true}, 0, "", Memory{Failed: true}},
		{
			"a retry", Seen{true, true, 1}, job(ready, func(j *batchv1.Job) {
				j.Annotations = map[string]string{batch.AttemptsAnnotation: `[{"attempt":1,"retriedAt":"2026-01-01T05:00:00Z"}]`}
			}), Memory{Failed: true}, 5*time.Hour + time.Minute, "started", Memory{Failed: true},
		},
		{
			"a CronJob's Job after the time of the schedule", first, job(ready, func(j *batchv1.Job) {
				j.Annotations = map[string]string{batchv1.CronJobScheduledTimestampAnnotation: "2025-12-31T20:00:00Z"}
			}), Memory{}, time.Minute, "started started-late", Memory{},
		},
		{
			"an expectation is met", Seen{true, false, 1}, job(ends(batchv1.JobComplete)), Memory{Every: time.Hour, Since: begin}, 0, "finished",
			Memory{Every: time.Hour}.Succeeded(begin.Add(time.Minute)),
		},
	}
	for _, c := range cases {
		said, then := Decide(c.was, OfJob(c.job, c.was.Then(c.job), ""), c.memory, notices.DefaultAfter, begin.Add(c.now))
		var kinds []string
		for _, n := range said {
			kinds = append(kinds, string(n.Kind))
		}
		if got := strings.Join(kinds, " "); got != c.want || !reflect.DeepEqual(then, c.then) {
			t.Errorf("%s: %q, then %+v; want %q, then %+v", c.name, got, then, c.want, c.then)
		}
	}
}

// However a Job gets on, each of its notices has an ID of its own, there is one for its end, and the same steps say the same.
func TestNoticesOfAnyJob(t *testing.T) {
	for seed := range uint64(500) {
		play := func() (ids []string, ended int) {
			r := rand.New(rand.NewPCG(seed, 1))
			j, was, m := job(func(j *batchv1.Job) { j.UID = types.UID(strings.Repeat("u", 1+int(seed%9))) }), Seen{Attempt: 1}, Memory{}
			for step := range 20 {
				switch r.IntN(4) {
				case 0:
					j.Status.Ready = ptr.To(int32(r.IntN(2)))
				case 1:
					j.Status.Failed++
				case 2:
					if batch.End(&j.Status) == nil && r.IntN(3) == 0 {
						ends([]batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete}[r.IntN(2)])(j)
					}
				}
				var said []Notice
				is := was.Then(j)
				said, m = Decide(was, OfJob(j, is, ""), m, time.Minute, begin.Add(time.Duration(step)*time.Second))
				was = is
				for _, n := range said {
					ids = append(ids, n.ID)
					if n.Result != "" {
						ended++
					}
				}
			}
			return ids, ended
		}
		ids, ended := play()
		again, _ := play()
		unique := slices.Clone(ids)
		slices.Sort(unique)
		if len(slices.Compact(unique)) != len(ids) || ended > 1 || !slices.Equal(ids, again) {
			t.Fatalf("seed %d: %q, %d ends; again %q", seed, ids, ended, again)
		}
	}
}

func TestWaitsUntil(t *testing.T) {
	suspended := func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }
	resumed := func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, LastTransitionTime: metav1.NewTime(begin.Add(time.Hour))}}
	}
	window := func(status corev1.ConditionStatus) func(j *batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{
				Type: batch.JobWindowClosed, Status: status, LastTransitionTime: metav1.NewTime(begin.Add(time.Hour)),
			}}
		}
	}
	for name, c := range map[string]struct {
		job  *batchv1.Job
		want time.Time
	}{
		"outside of its window":   {job(window(corev1.ConditionTrue)), time.Time{}},
		"since its window opened": {job(window(corev1.ConditionFalse)), begin.Add(time.Hour + time.Minute)},
		"one that waits":          {job(), begin.Add(time.Minute)},
		"one that runs":           {job(ready), time.Time{}},
		"one that is over":        {job(ends(batchv1.JobFailed)), time.Time{}},
		"suspended":               {job(suspended), time.Time{}},
		"that was suspended":      {job(resumed), begin.Add(time.Hour + time.Minute)},
	} {
		if w := OfJob(c.job, See(c.job), ""); !w.WaitsUntil(time.Minute).Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, w.WaitsUntil(time.Minute), c.want)
		}
	}
}

func TestGoes(t *testing.T) {
	webhook, watch := &Receiver{Webhook: &Webhook{}}, &Receiver{Healthcheck: &Healthcheck{}}
	elsewhere := &Receiver{Webhook: &Webhook{}, Namespaces: []string{"other"}}
	for name, c := range map[string]struct {
		notice Notice
		to     *Receiver
		on     []notices.Kind
		want   bool
	}{
		"asked for":                    {Notice{Kind: notices.Failed, Result: "Failed"}, webhook, []notices.Kind{notices.Failed}, true},
		"not asked for":                {Notice{Kind: notices.Finished, Result: "Complete"}, webhook, []notices.Kind{notices.Failed}, false},
		"any end":                      {Notice{Kind: notices.Failed, Result: "Failed"}, webhook, []notices.Kind{notices.Finished}, true},
		"not for the namespace":        {Notice{Kind: notices.Failed, Result: "Failed"}, elsewhere, []notices.Kind{notices.Failed}, false},
		"a start":                      {Notice{Kind: notices.Started}, webhook, []notices.Kind{notices.Finished}, false},
		"a start, to who watches":      {Notice{Kind: notices.Started}, watch, nil, true},
		"an end, to who watches":       {Notice{Kind: notices.Finished, Result: "Complete"}, watch, nil, true},
		"overdue, which that one sees": {Notice{Kind: notices.Overdue}, watch, []notices.Kind{notices.Overdue}, false},
	} {
		c.notice.Object.Namespace = "team"
		if got := Goes(&c.notice, c.to, notices.Wanted{Receivers: []string{"r"}, On: c.on}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Notices of one name keep their order; nobody waits for those of another.
func TestChoose(t *testing.T) {
	now := begin
	later := now.Add(time.Minute)
	for name, c := range map[string]struct {
		queue []Waiting
		want  string
		again time.Time
	}{
		"nothing":   {},
		"the first": {queue: []Waiting{{"1", "a", time.Time{}, 0, false}, {"2", "b", time.Time{}, 0, false}}, want: "1"},
		"not behind one that has failed": {
			queue: []Waiting{{"1", "a", later, 0, false}, {"2", "a", time.Time{}, 0, false}, {"3", "b", now, 0, false}}, want: "3",
		},
		"behind one that some have not taken": {queue: []Waiting{{"1", "a", later, 0, true}, {"2", "a", time.Time{}, 0, false}}, want: "2"},
		"all have failed":                     {queue: []Waiting{{"1", "a", later.Add(1), 0, false}, {"2", "a", time.Time{}, 0, false}, {"3", "b", later, 0, false}}, again: later},
	} {
		if key, again := Choose(c.queue, now); key != c.want || !again.Equal(c.again) {
			t.Errorf("%s: %q %v", name, key, again)
		}
	}
}

// A delivery is tried less and less often, and not for ever.
func TestFailed(t *testing.T) {
	p, now, tries, trying := Pending{Notice: Notice{At: begin}}, begin, 0, Trying{}
	for lost := false; !lost; tries++ {
		before := p.Next
		trying = trying.Failed(now)
		p, lost = p.Failed(errTest, 0, trying, now)
		if wait := p.Next.Sub(now); wait < firstRetry || wait > longestRetry || p.Next.Before(before) {
			t.Fatalf("try %d waits %v", tries, wait)
		}
		now = p.Next
	}
	if tries < 100 || tries > 400 || now.Sub(begin) < GiveUp || now.Sub(begin) > GiveUp+longestRetry {
		t.Errorf("%d tries in %v", tries, now.Sub(begin))
	}
}
