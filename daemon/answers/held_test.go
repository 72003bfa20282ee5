package answers_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/daemon/answers"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/daemon/simulation"
	"github.com/jobd/jobd/store"
)

// held makes a Job that runs for a while; pairs are its annotations. One with jobd.dev/after or -start-at is suspended.
func held(name, duration string, pairs ...string) *batchv1.Job {
	j := controltest.Simulate(name, duration, "0")
	for i := 0; i < len(pairs); i += 2 {
		metav1.SetMetaDataAnnotation(&j.ObjectMeta, pairs[i], pairs[i+1])
	}
	if batch.HeldBy(j.Annotations) != "" {
		j.Spec.Suspend = ptr.To(true)
	}
	return j
}

func asking(j *batchv1.Job, cpu string) *batchv1.Job {
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
	j.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return j
}

func within(j *batchv1.Job, d time.Duration) *batchv1.Job {
	j.Spec.ActiveDeadlineSeconds = ptr.To(int64(d / time.Second))
	return j
}

// inAWorld plays one case in a world of its own, in which Jobs of these names have run for as long as they say.
func inAWorld(t *testing.T, name string, earlier map[string]string, do func(*testing.T, *controltest.World)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := controltest.New(t)
			defer w.End()
			w.Stop()
			w.Allocatable = requests.Resources{"cpu": 4000}
			w.Start()
			for name, took := range earlier {
				w.Create(held(name, took))
			}
			time.Sleep(61 * time.Minute)
			for name := range earlier {
				w.Write(func(tx *store.Tx) error { tx.Delete(store.Key(objects.Jobs, "default", name)); return nil })
			}
			time.Sleep(time.Minute)
			do(t, w)
		})
	})
}

// says is what is expected of a Job, in words: "+1h0m0s History 1".
func says(t *testing.T, w *controltest.World, f *answers.Forecasts, name string) string {
	t.Helper()
	j := w.Job(name)
	all, err := f.Forecasts(t.Context(), []*batchv1.Job{j})
	if err != nil {
		t.Fatal(err)
	}
	switch of := all[j.UID]; {
	case of == nil:
		return "nothing"
	case of.Starts != nil:
		said := fmt.Sprintf("+%s %s", (time.Until(of.Starts.At.Time) + 10*time.Second).Truncate(time.Minute), of.Starts.Basis)
		if of.Starts.Basis == wire.History {
			said += fmt.Sprint(" ", of.Starts.Runs)
		}
		return said
	default:
		return of.Unknown
	}
}

func TestWhatIsExpectedOfJobsThatAreHeldBack(t *testing.T) {
	const after, group, window = batch.AfterAnnotation, core.ConcurrencyGroupAnnotation, core.WindowAnnotation
	hour := map[string]string{"prep": "1h", "mid": "30m"}
	clock := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	for name, c := range map[string]struct {
		jobs func() []*batchv1.Job
		want map[string]string
		ns   map[string]string // annotations of the namespace
	}{
		"a chain, by earlier runs": {func() []*batchv1.Job {
			return []*batchv1.Job{held("last", "1m", after, "mid:any"), held("mid", "30m", after, "prep"), held("prep", "1h")}
		}, map[string]string{"mid": "+1h0m0s History 1", "last": "+1h30m0s History 1"}, nil},
		"by a deadline": {func() []*batchv1.Job {
			return []*batchv1.Job{held("last", "1m", after, "first"), within(held("first", "1m"), 2*time.Hour)}
		}, map[string]string{"last": "+2h0m0s Deadline"}, nil},
		"of a need that waits itself, by a deadline": {func() []*batchv1.Job {
			return []*batchv1.Job{
				held("last", "1m", after, "second"), within(held("second", "1m", after, "first"), time.Hour), within(held("first", "1m"), 2*time.Hour),
			}
		}, map[string]string{"second": "+2h0m0s Deadline", "last": "+3h0m0s Deadline"}, nil},
		"the later of two, as sure as the less sure": {func() []*batchv1.Job {
			return []*batchv1.Job{held("last", "1m", after, "prep,first"), held("prep", "1h"), within(held("first", "1m"), 2*time.Hour)}
		}, map[string]string{"last": "+2h0m0s History 1"}, nil},
		"nobody knows": {func() []*batchv1.Job {
			return []*batchv1.Job{held("last", "1m", after, "first"), held("first", "1h")}
		}, map[string]string{"last": "jobs/first has neither a deadline nor an earlier run"}, nil},
		"it is not there yet": {func() []*batchv1.Job {
			return []*batchv1.Job{held("last", "1m", after, "never")}
		}, map[string]string{"last": "there is no jobs/never yet"}, nil},
		"it has failed": {func() []*batchv1.Job {
			first := controltest.Simulate("first", "0s", "1")
			first.Spec.BackoffLimit = ptr.To[int32](0)
			return []*batchv1.Job{held("last", "1m", after, "first"), first}
		}, map[string]string{"last": "jobs/first has failed"}, nil},
		"it may not fail": {func() []*batchv1.Job {
			return []*batchv1.Job{held("last", "1m", after, "prep:failed"), held("prep", "1h")}
		}, map[string]string{"last": "jobs/prep may not fail"}, nil},
		"it is paused": {func() []*batchv1.Job {
			return []*batchv1.Job{held("last", "1m", after, "prep"), held("prep", "1h", batch.PausedAnnotation, clock(0))}
		}, map[string]string{"last": "jobs/prep is paused", "prep": "nothing"}, nil},
		"it is suspended": {func() []*batchv1.Job {
			prep := held("prep", "1h")
			prep.Spec.Suspend = ptr.To(true)
			return []*batchv1.Job{held("last", "1m", after, "prep"), prep}
		}, map[string]string{"last": "jobs/prep is suspended"}, nil},
		"a cycle": {func() []*batchv1.Job {
			return []*batchv1.Job{held("a", "1m", after, "b"), held("b", "1m", after, "a")}
		}, map[string]string{"a": "it waits for itself"}, nil},
		"after others, and at a time": {func() []*batchv1.Job {
			return []*batchv1.Job{
				held("later", "1m", after, "prep", batch.StartAtAnnotation, clock(5*time.Hour)), held("prep", "1h"),
				held("sooner", "1m", after, "prep", batch.StartAtAnnotation, clock(time.Minute)),
				held("paused", "1m", batch.StartAtAnnotation, clock(5*time.Hour), batch.PausedAnnotation, clock(0)),
			}
		}, map[string]string{"later": "+5h0m0s StartTime", "sooner": "+1h0m0s History 1", "paused": "nothing"}, nil},
		"after others, in its window": {func() []*batchv1.Job {
			opens := time.Now().UTC().Add(3 * time.Hour).Truncate(time.Minute)
			return []*batchv1.Job{
				held("last", "1m", after, "prep", window, opens.Format("15:04")+"-"+opens.Add(time.Hour).Format("15:04"), core.WindowTimeZoneAnnotation, "UTC"),
				held("prep", "1h"),
			}
		}, map[string]string{"last": "+3h0m0s Window"}, nil},
		"after others, and then when there is room": {func() []*batchv1.Job {
			return []*batchv1.Job{
				asking(held("last", "1m", after, "prep"), "2"), held("prep", "1h"), asking(within(held("fills", "2h"), 2*time.Hour), "3"),
			}
		}, map[string]string{"last": "+2h5m0s History 1"}, nil}, // the deadline counts a little longer
		"in a group": {func() []*batchv1.Job {
			return []*batchv1.Job{
				held("prep", "1h", group, "db"), held("mid", "30m", group, "db"), held("third", "1m", group, "db"), held("fourth", "1m", group, "db"),
			}
		}, map[string]string{
			"mid": "+1h0m0s History 1", "third": "+1h30m0s History 1", "fourth": "jobs/third has neither a deadline nor an earlier run",
		}, nil},
		"in a group of two": {func() []*batchv1.Job {
			two := []string{group, "db", core.ConcurrencyLimitAnnotation, "2"}
			return []*batchv1.Job{
				held("prep", "1h", two...), held("unknown", "9h", two...), held("mid", "30m", two...), held("last", "1m", two...),
			}
		}, map[string]string{"mid": "+1h0m0s History 1", "last": "+1h30m0s History 1"}, nil},
		"in the group of its namespace": {func() []*batchv1.Job {
			return []*batchv1.Job{held("prep", "1h"), held("last", "1m")}
		}, map[string]string{"last": "+1h0m0s History 1"}, map[string]string{core.ConcurrencyLimitAnnotation: "1"}},
		"after others, and then for a place": {func() []*batchv1.Job {
			return []*batchv1.Job{
				within(held("holds", "9h", group, "db"), 3*time.Hour), held("prep", "1h"), held("last", "1m", after, "prep", group, "db"),
			}
		}, map[string]string{"last": "+3h0m0s History 1"}, nil},
		"in a group whose Jobs replace one another": {func() []*batchv1.Job {
			return []*batchv1.Job{
				held("prep", "1h", group, "db"), held("last", "1m", after, "prep", group, "db", core.ConcurrencyPolicyAnnotation, "Replace"),
			}
		}, map[string]string{"last": "Jobs of the group db end one another"}, nil},
		"in a group that takes no more": {func() []*batchv1.Job {
			return []*batchv1.Job{
				held("prep", "1h", group, "db"), held("last", "1m", after, "prep", group, "db", core.ConcurrencyPolicyAnnotation, "Forbid"),
			}
		}, map[string]string{"last": "it fails if the group db has no place for it then"}, nil},
	} {
		inAWorld(t, name, hour, func(t *testing.T, w *controltest.World) {
			if c.ns != nil {
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: c.ns}}
				w.Put(store.Key(objects.Namespaces, "", "default"), ns)
			}
			for _, j := range c.jobs() {
				w.Create(j)
				synctest.Wait()
				time.Sleep(time.Second) // their order is that of their age
			}
			time.Sleep(2 * time.Second)
			f := answers.NewForecasts(w.Store, w.Control)
			for name, want := range c.want {
				if got := says(t, w, f, name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			time.Sleep(2 * time.Minute) // what was looked up is forgotten
		})
	}
}

// TestJobsThatAreHeldBackStartWhenTheyAreExpectedTo plays random Jobs of which all have run before, and take as long as they did then.
func TestJobsThatAreHeldBackStartWhenTheyAreExpectedTo(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 0))
		earlier, names := map[string]string{}, []string{}
		for i := range 12 {
			names = append(names, fmt.Sprint("j", i))
			earlier[names[i]] = fmt.Sprintf("%dm", 1+r.IntN(20))
		}
		inAWorld(t, fmt.Sprint(seed), earlier, func(t *testing.T, w *controltest.World) {
			for i, name := range names {
				var pairs []string
				if i > 0 && r.IntN(2) == 0 {
					needs := map[string]bool{}
					for range 1 + r.IntN(2) {
						needs[names[r.IntN(i)]] = true
					}
					var all []string
					for n := range needs {
						all = append(all, n)
					}
					pairs = append(pairs, batch.AfterAnnotation, strings.Join(all, ","))
				} else if r.IntN(2) == 0 {
					pairs = append(pairs, core.ConcurrencyGroupAnnotation, "db", core.ConcurrencyLimitAnnotation, "2")
				}
				w.Create(held(name, earlier[name], pairs...))
				time.Sleep(time.Second)
			}
			synctest.Wait()
			f := answers.NewForecasts(w.Store, w.Control)
			want := map[string]time.Time{}
			for _, name := range names {
				j := w.Job(name)
				if j.Status.StartTime != nil {
					continue
				}
				all, err := f.Forecasts(t.Context(), []*batchv1.Job{j})
				if err != nil || all[j.UID] == nil || all[j.UID].Starts == nil {
					t.Fatalf("nobody knows when %s starts: %+v %v", name, all[j.UID], err)
				}
				want[name] = all[j.UID].Starts.At.Time
			}
			uids := map[types.UID]bool{}
			time.Sleep(4 * time.Hour)
			for name, at := range want {
				j := w.Job(name)
				uids[j.UID] = true
				if j.Status.StartTime == nil || j.Status.StartTime.Sub(at).Abs() > time.Minute {
					t.Errorf("%s started at %v, and was expected to at %v", name, j.Status.StartTime, at)
				}
			}
			if len(uids) == 0 && seed == 0 {
				t.Error("nobody has waited")
			}
		})
	}
}

// TestASimulationExpectsWhatTheDaemonDoes: what it tells of Jobs that wait, as soon as they do, is what the daemon says then.
func TestASimulationExpectsWhatTheDaemonDoes(t *testing.T) {
	told := map[bool]int{}
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		inAWorld(t, fmt.Sprint(seed), nil, func(t *testing.T, w *controltest.World) {
			var jobs []*batchv1.Job
			daemon := map[string]*wire.Forecast{}
			for i := range 12 {
				var pairs []string
				if i > 0 && r.IntN(2) == 0 {
					pairs = append(pairs, batch.AfterAnnotation, fmt.Sprint("j", r.IntN(i))+[]string{"", ":any", ":failed"}[r.IntN(3)])
				}
				if r.IntN(2) == 0 {
					pairs = append(pairs, core.ConcurrencyGroupAnnotation, []string{"db", "net"}[r.IntN(2)],
						core.ConcurrencyLimitAnnotation, fmt.Sprint(1+r.IntN(2)),
						core.ConcurrencyPolicyAnnotation, []string{"Queue", "Queue", "Queue", "Queue", "Replace", "Forbid"}[r.IntN(6)])
				}
				j := asking(held(fmt.Sprint("j", i), "10m", pairs...), fmt.Sprint(1+r.IntN(3)))
				if r.IntN(4) > 0 {
					within(j, time.Duration(1+r.IntN(9))*time.Hour)
				}
				w.Create(j)
				jobs = append(jobs, j.DeepCopy())
				synctest.Wait()
				all, err := answers.NewForecasts(w.Store, w.Control).Forecasts(t.Context(), []*batchv1.Job{w.Job(j.Name)})
				if err != nil {
					t.Fatal(err)
				}
				daemon[j.Name] = all[j.UID]
				time.Sleep(time.Second)
			}
			result, err := simulation.Run(simulation.Config{
				Job: jobs[0], More: jobs[1:], Begin: jobs[0].CreationTimestamp.Time, MaxPods: 1000, Allocatable: requests.Resources{"cpu": 4000},
				Behave: func(simulation.Start) simulation.End { return simulation.End{After: 10 * time.Minute} },
			})
			if err != nil {
				t.Fatal(err)
			}
			last := map[string]simulation.Entry{} // of what it waits for at its creation: for others, then for a place, then for room
			for _, e := range result.Timeline {
				created := slices.IndexFunc(jobs, func(j *batchv1.Job) bool { return j.Name == e.Job })
				if e.What == "Waits" && e.At == time.Duration(created)*time.Second {
					last[e.Job] = e
				}
			}
			for name, e := range last {
				of := daemon[name]
				if of == nil {
					of = &wire.Forecast{}
				}
				if differs := (e.Expected == nil) != (of.Starts == nil) || !strings.HasSuffix(e.Message, of.Unknown); differs ||
					e.Expected != nil && (e.Expected.Basis != of.Starts.Basis || !e.Expected.At.Equal(&of.Starts.At)) {
					t.Errorf("%s: %q, %+v; the daemon says %+v\n%s", name, e.Message, e.Expected, of, result.Text())
				}
				told[e.Expected != nil]++
			}
			time.Sleep(2 * time.Minute)
		})
	}
	if told[true] < 10 || told[false] < 10 {
		t.Errorf("of %d it is said when they start, of %d why nobody knows", told[true], told[false])
	}
}
