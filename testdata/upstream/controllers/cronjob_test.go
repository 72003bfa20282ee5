package controllers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/objects"
)

const cronJobName = "cj"

// cronSide is a side that also acts for a CronJob.
type cronSide interface {
	side
	createCronJob(*batchv1.CronJob)
	editCronJob(func(*batchv1.CronJob))
	cronJob() *batchv1.CronJob
	jobs() []*batchv1.Job
	deleteJob(name string)
}

type schedule struct {
	text   string
	period time.Duration
	even   bool
}

// schedules are those that are drawn, each with about how long it is between two of its times. Only CronJobs of even
// ones are suspended, or wait for a run to end: Kubernetes' controller finds what was missed by the time between two runs, and of other
// schedules it may find nothing.
var schedules = []schedule{
	{"*/5 * * * *", 5 * time.Minute, true}, {"* * * * *", time.Minute, true}, {"@hourly", time.Hour, true}, {"*/20 * * * *", 20 * time.Minute, true},
	{"@every 7m", 7 * time.Minute, true}, {"30 2 * * *", time.Hour, false}, {"30 1 * * *", time.Hour, false}, {"*/20 1-3 * * *", 20 * time.Minute, false},
	{"0 0 31,1 * *", time.Hour, false}, {"15 6 * * 1-5", time.Hour, false}, {"0 */2 29 */2 *", time.Hour, false}, {"0 0 13 * 0", time.Hour, false},
	{"@daily", time.Hour, false},
}

// begins are when lives begin, and soon a month ends or a clock is changed.
var begins = []string{"2000-03-25", "2000-04-01", "2000-10-28", "2000-08-26", "2000-01-30", "2000-02-28", "2000-12-31", "2000-06-15"}

// TestCronJobs is TestJobs for CronJobs, whose Jobs end as they are told.
func TestCronJobs(t *testing.T) {
	for n := range *lives {
		at := *seed + uint64(n)
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { liveCronJob(t, rand.New(rand.NewPCG(at, 8))) })
		})
	}
}

func liveCronJob(t *testing.T, r *rand.Rand) {
	begin, err := time.Parse(time.DateOnly, begins[r.IntN(len(begins))])
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(begin) + time.Duration(r.IntN(24*3600))*time.Second + 50*time.Millisecond)
	ours, theirs := newOurs(t), newTheirs()
	defer ours.end()
	defer theirs.end()
	c, of := drawCronJob(t, r)
	var story []string
	each := func(what string, do func(cronSide)) {
		story = append(story, fmt.Sprintf("%s %s", time.Now().Format(time.DateTime), what))
		do(ours)
		do(theirs)
	}
	each("create", func(s cronSide) { s.createCronJob(c) })
	for len(story) < 25 && time.Since(c.CreationTimestamp.Time) < 5*time.Hour {
		time.Sleep(2 * time.Second)
		diff := differAtCronJob(ours, theirs)
		for tries := 0; diff != "" && tries < 20; tries++ {
			time.Sleep(2 * time.Second)
			diff = differAtCronJob(ours, theirs)
		}
		if err := theirs.err(); err != nil {
			t.Fatal(err)
		}
		if diff != "" {
			t.Fatalf("%q %q %s %v %v %v\n%s\n-theirs +ours\n%s", c.Spec.Schedule, ptr.Deref(c.Spec.TimeZone, ""), c.Spec.ConcurrencyPolicy,
				ptr.Deref(c.Spec.StartingDeadlineSeconds, -1), *c.Spec.SuccessfulJobsHistoryLimit, *c.Spec.FailedJobsHistoryLimit,
				strings.Join(story, "\n"), diff)
		}
		// A Job that ends just before its CronJob is due may end there before or after that.
		for until := time.Duration(0); until < 4*time.Second; time.Sleep(until + 2500*time.Millisecond) {
			minute := time.Now().Truncate(time.Minute).Add(time.Minute)
			every := time.Since(c.CreationTimestamp.Time) % (7 * time.Minute) // of the schedule that counts from there
			if until = time.Until(minute); 7*time.Minute-every < until {
				until = 7*time.Minute - every
			}
			if until >= 4*time.Second {
				break
			}
		}
		var alive []string
		for _, j := range ours.jobs() {
			if !objects.Finished(j) {
				alive = append(alive, j.Name)
			}
		}
		switch n := r.IntN(20); {
		case n < 10:
			d := time.Duration(r.Float64() * r.Float64() * 5 * float64(of.period)).Round(time.Second)
			if len(alive) > 30 {
				d = time.Minute
			}
			each("wait "+d.String(), func(s cronSide) {
				if s == cronSide(ours) {
					time.Sleep(d)
				}
			})
		case n < 15:
			if len(alive) > 0 {
				name, code := alive[r.IntN(len(alive))], int32(r.IntN(2))
				each(fmt.Sprintf("exit %d: %s", code, name), func(s cronSide) {
					for _, p := range s.pods() {
						if p.Labels[batchv1.JobNameLabel] == name {
							s.exit(p, code)
						}
					}
				})
			}
		case n < 16:
			if all := ours.jobs(); len(all) > 0 {
				name := all[r.IntN(len(all))].Name
				each("delete "+name, func(s cronSide) { s.deleteJob(name) })
			}
		case n < 17 && of.even:
			each("suspend or not", func(s cronSide) {
				s.editCronJob(func(c *batchv1.CronJob) { c.Spec.Suspend = ptr.To(!*c.Spec.Suspend) })
			})
		case n < 18:
			other, _ := drawCronJob(t, r)
			if strings.HasPrefix(of.text, "@every") {
				other.Spec.StartingDeadlineSeconds = nil
			}
			each(fmt.Sprintf("%s %v", other.Spec.ConcurrencyPolicy, ptr.Deref(other.Spec.StartingDeadlineSeconds, -1)), func(s cronSide) {
				s.editCronJob(func(c *batchv1.CronJob) {
					if !of.even && other.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent {
						return
					}
					old := c.Spec
					c.Spec = *other.Spec.DeepCopy()
					c.Spec.Schedule, c.Spec.TimeZone, c.Spec.Suspend = old.Schedule, old.TimeZone, old.Suspend
				})
			})
		case n < 19:
			each("restart", func(cronSide) {})
			ours.restart()
		}
	}
}

// drawCronJob makes a CronJob that an API server takes.
func drawCronJob(t *testing.T, r *rand.Rand) (*batchv1.CronJob, schedule) {
	for {
		c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: cronJobName, Namespace: namespace, UID: "c", CreationTimestamp: now()}}
		s := &c.Spec
		of := schedules[r.IntN(len(schedules))]
		s.Schedule = of.text
		if zone := []string{"", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Etc/UTC", "Australia/Lord_Howe"}[r.IntN(6)]; zone != "" {
			s.TimeZone = &zone
		}
		s.ConcurrencyPolicy = []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent}[r.IntN(3)]
		if !of.even && s.ConcurrencyPolicy == batchv1.ForbidConcurrent {
			continue
		}
		if r.IntN(2) == 0 && !strings.HasPrefix(of.text, "@every") { // there, with a deadline that is shorter, nothing ever runs
			s.StartingDeadlineSeconds = ptr.To([]int64{5, 15, 200, 4000, 100_000}[r.IntN(5)])
		}
		if r.IntN(2) == 0 {
			s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = ptr.To(r.Int32N(4)), ptr.To(r.Int32N(3))
		}
		s.Suspend = ptr.To(false)
		s.JobTemplate.Spec.BackoffLimit = ptr.To[int32](0)
		s.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		s.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		k := batch.CronJobKind()
		k.Default(c)
		k.Strategy.PrepareForCreate(t.Context(), c)
		if len(k.Strategy.Validate(t.Context(), c)) == 0 {
			return c, of
		}
	}
}

func differAtCronJob(ours, theirs cronSide) string {
	synctest.Wait()
	return gocmp.Diff(saidOfCronJob(theirs), saidOfCronJob(ours), gocmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() <= time.Minute }))
}

// saidOfCronJob is what is to be equal of a CronJob and its Jobs.
func saidOfCronJob(s cronSide) (lines []line) {
	st := s.cronJob().Status
	add := func(at *metav1.Time, format string, args ...any) {
		l := line{Text: fmt.Sprintf(format, args...)}
		if at != nil {
			l.At = at.Time
		}
		lines = append(lines, l)
	}
	at := func(t *metav1.Time) string {
		if t == nil {
			return "never"
		}
		return t.UTC().Format(time.DateTime)
	}
	add(st.LastSuccessfulTime, "last scheduled %s, last success %t", at(st.LastScheduleTime), st.LastSuccessfulTime != nil)
	for _, ref := range st.Active {
		add(nil, "active %s", ref.Name)
	}
	for _, j := range s.jobs() {
		end := "runs"
		if c := batch.End(&j.Status); c != nil {
			end = string(c.Type)
		}
		add(&j.CreationTimestamp, "job %s: %s, %d ready, for %s", j.Name, end,
			ptr.Deref(j.Status.Ready, 0), j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.Text, b.Text) })
	return lines
}
