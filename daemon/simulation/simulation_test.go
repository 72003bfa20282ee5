package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/requests"
)

func newJob(spec batchv1.JobSpec) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "default", UID: "u"}, Spec: spec}
	if j.Spec.Template.Spec.RestartPolicy == "" {
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	batch.SetJobDefaults(j)
	batch.PrepareJob(j)
	return j
}

func play(t *testing.T, spec batchv1.JobSpec, rules ...string) *Result {
	t.Helper()
	var parsed []Rule
	for _, text := range rules {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, r)
	}
	r, err := Run(Config{
		Job: newJob(spec), Begin: time.Unix(1_700_000_000, 0),
		Behave: Rules(parsed, 1, func(Start) End { return Default }),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatIsSimulated(t *testing.T) {
	indexed := func(n int32) batchv1.JobSpec {
		return batchv1.JobSpec{Completions: &n, Parallelism: &n, CompletionMode: ptr.To(batchv1.IndexedCompletion)}
	}
	onFailure := batchv1.JobSpec{BackoffLimit: ptr.To[int32](6)}
	onFailure.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	for name, c := range map[string]struct {
		spec  batchv1.JobSpec
		rules []string
		pods  int
		took  time.Duration
		end   string
		words []string
	}{
		"a Job that succeeds": {indexed(3), nil, 3, time.Second, "CompletionsReached", []string{"created for index 2", "counts as succeeded"}},
		"one that fails twice": {
			batchv1.JobSpec{
				BackoffLimit: ptr.To[int32](3),
			}, []string{"pod=1-2: exit=1 after=2s"}, 3, 2*time.Second + 10*time.Second + 2*time.Second + 20*time.Second + time.Second,
			"CompletionsReached", []string{"no new pod before 12s: the back-off after failure 1 is 10s"},
		},
		"an index that fails once": {
			indexed(4), []string{"index=3 start=1: exit=7 after=5s"}, 5, 16 * time.Second, "CompletionsReached",
			[]string{"ended with exit code 7"},
		},
		"restarts in place": {onFailure, []string{"restart=0: exit=1 after=0s"}, 1, time.Second, "CompletionsReached", []string{"started again"}},
		"a deadline": {
			batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To[int64](30)}, []string{"*: after=1h"}, 1, 30 * time.Second, "DeadlineExceeded",
			[]string{"is deleted", "ended with exit code 143"},
		},
		"nothing happens": {batchv1.JobSpec{Suspend: ptr.To(true)}, nil, 0, 0, "", []string{"it is suspended (spec.suspend)"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := play(t, c.spec, c.rules...)
			reason := ""
			if end := batch.End(&r.Status); end != nil {
				reason = end.Reason
			}
			if r.Pods != c.pods || r.Took != c.took || reason != c.end {
				t.Errorf("%d pods in %s, %q; want %d, %s, %q", r.Pods, r.Took, reason, c.pods, c.took, c.end)
			}
			for _, words := range c.words {
				if !strings.Contains(r.Text(), words) {
					t.Errorf("%q is not told", words)
				}
			}
			if t.Failed() {
				t.Log("\n" + r.Text())
			}
		})
	}
}

func TestMemoryGrowsInASimulation(t *testing.T) {
	j := newJob(batchv1.JobSpec{})
	j.Annotations = map[string]string{batch.OOMMemoryFactorAnnotation: "2", batch.OOMMemoryMaxAnnotation: "1Gi"}
	j.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}
	for _, rule := range []string{"*: needs=350Mi", "pod=1-2: oom"} {
		parsed, err := ParseRule(rule)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(Config{Job: j, Begin: time.Unix(1_700_000_000, 0), Behave: Rules([]Rule{parsed}, 1, func(Start) End { return Default })})
		if err != nil || r.Pods != 3 || r.Status.Succeeded != 1 || !strings.Contains(r.Text(), "was killed for want of memory (OOMKilled, exit code 137)") ||
			!strings.Contains(r.Text(), "created with 400Mi of memory (OOM kills before it: 2)") {
			t.Errorf("%s: %v\n%s", rule, err, r.Text())
		}
	}
}

func TestTheSameSeedGivesTheSame(t *testing.T) {
	n := int32(50)
	spec := batchv1.JobSpec{Completions: &n, Parallelism: ptr.To[int32](5), BackoffLimit: ptr.To[int32](1000)}
	rule := "chance=0.3: exit=1 after=1s-20s"
	a, b := play(t, spec, rule), play(t, spec, rule)
	if a.Text() != b.Text() || a.Status.Failed == 0 || a.Status.Succeeded != n {
		t.Errorf("%d failed, %d succeeded", a.Status.Failed, a.Status.Succeeded)
	}
}

func TestWrongRulesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"exit=1": "lacks a colon", "index=3:": "says nothing after the colon", "index=x: exit=1": "neither a number", "*: exit=256": "from 0 to 255",
		"start=0: exit=1": "neither a number from 1", "colour=red: exit=1": "before the colon there may be",
		"*: after=-1s": "neither a duration", "*: oom=1": "oom has no value", "*: needs=x": "not an amount of memory",
		"*: after=5s-2s": "nor a range", "chance=2: exit=1": "probability", "*: colour=red": "after the colon there may be",
		"container=: exit=1": "names no container",
	} {
		if _, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add("index=3,start=1-2: exit=1 after=2s-3s")
	f.Add("chance=NaN: after=1s")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule(text)
		if err == nil && (r.exit < 0 || r.exit > 255 || r.from < 0 || r.to < r.from || !(r.chance >= 0 && r.chance <= 1)) {
			t.Errorf("%q: %+v", text, r)
		}
	})
}

func TestARecordedJobIsRepeated(t *testing.T) {
	ended := func(index string, created int64, ran, code int) *corev1.Pod {
		at := func(s int64) metav1.Time { return metav1.Unix(s, 0) }
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(created), Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: index}},
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: int32(code), StartedAt: at(created), FinishedAt: at(created + int64(ran)),
		}}}}
		return p
	}
	behave := Recorded([]*corev1.Pod{ended("1", 20, 8, 0), ended("1", 10, 3, 5), ended("0", 10, 4, 0)})
	var got []End
	for _, s := range []Start{{Index: 1, Number: 1}, {Index: 1, Number: 2}, {Index: 0, Number: 1}, {Index: 0, Number: 2}} {
		s.Container = "c"
		got = append(got, behave(s))
	}
	want := []End{{After: 3 * time.Second, Exit: 5}, {After: 8 * time.Second}, {After: 4 * time.Second}, {After: 8 * time.Second}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestASignalIsSimulated(t *testing.T) {
	j := newJob(batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To[int64](30)})
	j.Spec.Template.Annotations = map[string]string{core.SignalAnnotation: "USR1@10s"}
	rule, err := ParseRule("*: after=1h")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(Config{Job: j, Begin: time.Unix(1_700_000_000, 0), Behave: Rules([]Rule{rule}, 1, func(Start) End { return Default })})
	if err != nil || !strings.Contains(r.Text(), "       20s  pods/j-00001 gets SIGUSR1 (jobd.dev/signal)") || r.Took != 30*time.Second {
		t.Errorf("%v\n%s", err, r.Text())
	}
}

// TestRoomIsKeptAsByTheDaemon has an index whose next pod asks for more memory than is free beside the others: these go on passing it
// until it has waited for too long.
func TestRoomIsKeptAsByTheDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		least time.Duration
		most  time.Duration
	}{
		"never":                  {0, 15 * time.Minute, time.Hour},
		"after one minute":       {time.Minute, time.Minute, 2*time.Minute + 10*time.Second},
		"after two more minutes": {3 * time.Minute, 3 * time.Minute, 4*time.Minute + 10*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			j := growing(t)
			result, err := Run(Config{
				Job: j, MaxPods: 100, Allocatable: requests.Resources{"memory": 200 << 20}, Begin: time.Unix(1_700_000_000, 0), StarvationAfter: c.after,
				Settings: job.Settings{BackoffBase: time.Second, BackoffCap: time.Second},
				Behave: func(s Start) End {
					if s.Index == 0 {
						return End{After: time.Second, Needs: 150 << 20}
					}
					return End{After: time.Duration(50+s.Index) * time.Second}
				},
			})
			if err != nil || !result.Finished {
				t.Fatalf("%v %+v", err, result)
			}
			var created, started time.Duration
			for _, e := range result.Timeline {
				if e.Index != nil && *e.Index == 0 {
					switch e.What {
					case "Created":
						created = e.At
					case "Started":
						started = e.At
					}
				}
			}
			if waited := started - created; waited < c.least || waited > c.most {
				t.Errorf("it has waited for %s", waited)
			}
		})
	}
}

// growing is a Job whose pods get more memory when they have had too little.
func growing(t *testing.T) *batchv1.Job {
	t.Helper()
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "default", UID: "j", CreationTimestamp: metav1.Unix(1_700_000_000, 0)}}
	j.Annotations = map[string]string{batch.OOMMemoryFactorAnnotation: "2", batch.OOMMemoryMaxAnnotation: "200Mi"}
	indexed := batchv1.IndexedCompletion
	j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = &indexed, ptr.To[int32](40), ptr.To[int32](3)
	j.Spec.BackoffLimitPerIndex = ptr.To[int32](3)
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	c := corev1.Container{Name: "c", Image: "busybox"}
	c.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("100Mi")}
	c.Resources.Requests = c.Resources.Limits
	j.Spec.Template.Spec.Containers = []corev1.Container{c}
	batch.SetJobDefaults(j)
	batch.PrepareJob(j)
	return j
}

// What waits is told with when it is expected to start, by what the daemon would say it by: deadlines, and how long pods of its Job took.
func TestForecastsInASimulation(t *testing.T) {
	ask := func(spec batchv1.JobSpec) *batchv1.Job {
		j := newJob(spec)
		j.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		return j
	}
	limited := ask(batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To[int64](1800)})
	limited.Name, limited.UID = "limited", "l"
	grouped := limited.DeepCopy()
	grouped.Name, grouped.UID, grouped.Annotations = "grouped", "g", map[string]string{core.ConcurrencyGroupAnnotation: "db"}
	held := func(name, by, what string) *batchv1.Job {
		j := ask(batchv1.JobSpec{Suspend: ptr.To(by == batch.AfterAnnotation)})
		j.Name, j.UID, j.Annotations = name, types.UID(name), map[string]string{by: what}
		return j
	}
	gang := ask(batchv1.JobSpec{
		Completions: ptr.To[int32](2), Parallelism: ptr.To[int32](2), CompletionMode: ptr.To(batchv1.IndexedCompletion),
		Scheduling: &batchv1.JobSchedulingConfiguration{SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{
			Gang: &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{},
		}},
	})
	for name, c := range map[string]struct {
		jobs  []*batchv1.Job
		rules []string
		want  []string // of those that wait, in order
		cpu   int64
	}{
		"a gang behind a deadline": {
			[]*batchv1.Job{limited, gang}, []string{"job=limited: after=1h"}, []string{"by 31m19s (by deadline)", "by 31m19s (by deadline)"}, 2000,
		},
		"behind a deadline": {
			// A limit is rounded up to one of few kinds.
			[]*batchv1.Job{limited, ask(batchv1.JobSpec{})}, []string{"job=limited: after=1h"}, []string{"by 31m19s (by deadline)"}, 1000,
		},
		"after a deadline of another Job": {
			[]*batchv1.Job{limited, held("second", batch.AfterAnnotation, "limited:any"), held("third", batch.AfterAnnotation, "second")},
			[]string{"job=limited: after=1h"}, []string{"by 30m0s (by deadline)", "jobs/second has neither a deadline nor an earlier run"}, 3000,
		},
		"for a place": {
			[]*batchv1.Job{grouped, held("second", core.ConcurrencyGroupAnnotation, "db"), held("third", core.ConcurrencyGroupAnnotation, "db")},
			[]string{"job=grouped: after=20m"}, []string{"by 30m0s (by deadline)", "jobs/second has neither a deadline nor an earlier run"}, 3000,
		},
		"behind what nobody knows": {[]*batchv1.Job{ask(batchv1.JobSpec{}), limited}, []string{"job=j: after=1m"}, []string{""}, 1000},
		"behind pods of the same Job": {
			[]*batchv1.Job{ask(batchv1.JobSpec{Completions: ptr.To[int32](4), Parallelism: ptr.To[int32](2)})}, []string{"*: after=10s"},
			[]string{"", "at 20s (as pods of it before)", "at 30s (as pods of it before)"}, 1000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []Rule
			for _, text := range c.rules {
				r, err := ParseRule(text)
				if err != nil {
					t.Fatal(err)
				}
				rules = append(rules, r)
			}
			r, err := Run(Config{
				Job: c.jobs[0], More: c.jobs[1:], Begin: time.Unix(1_700_000_000, 0), Allocatable: requests.Resources{"cpu": c.cpu},
				Behave: Rules(rules, 1, func(Start) End { return Default }),
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range r.Timeline {
				if e.What == "Waits" {
					_, words, _ := strings.Cut(e.Message, "; its start is expected ")
					_, why, _ := strings.Cut(e.Message, "; nobody knows when it starts: ")
					if (e.Expected != nil) != (words != "") {
						t.Errorf("%q has %v", e.Message, e.Expected)
					}
					got = append(got, words+why)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("expected %q, want %q\n%s", got, c.want, r.Text())
			}
		})
	}
}
