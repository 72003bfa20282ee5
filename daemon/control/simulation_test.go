package control_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/daemon/simulation"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// What is simulated is what the daemon does. Random Jobs are played by both, in virtual time.
func TestTheSimulationIsWhatTheDaemonDoes(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				j := randomJob(rand.New(rand.NewPCG(seed, 6)))
				w.Create(j)
				begin := j.CreationTimestamp.Time
				result, err := simulation.Run(simulation.Config{
					Job: j, Behave: asAnnotated(t, j), Begin: begin, MaxPods: 1000, Allocatable: requests.Resources{"cpu": 3000},
					Settings: job.Settings{BackoffBase: 10 * time.Second, BackoffCap: 6 * time.Minute},
				})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(24 * time.Hour)
				got := w.Job("j")
				if diff := cmp.Diff(outcome(&got.Status, w.Pods(), begin), outcome(&result.Status, result.Left, begin)); diff != "" {
					t.Errorf("%+v\n%v\n-daemon +simulation:\n%s\n%s", j.Spec, j.Spec.Template.Annotations, diff, result.Text())
				}
			})
		})
	}
}

// outcome is what is to be equal: how the Job has ended, and which pods it has left, by the second.
func outcome(s *batchv1.JobStatus, pods []*corev1.Pod, begin time.Time) (lines []string) {
	at := func(t metav1.Time) time.Duration { return t.Sub(begin.Truncate(time.Second)).Truncate(time.Second) }
	for _, p := range pods {
		lines = append(lines, fmt.Sprintf("pod of %s at %s: %s", p.Annotations[batchv1.JobCompletionIndexAnnotation],
			at(p.CreationTimestamp), p.Status.Phase))
	}
	slices.Sort(lines)
	lines = append(lines, fmt.Sprintf("active %d succeeded %d failed %d completed %q failed %q", s.Active, s.Succeeded, s.Failed,
		s.CompletedIndexes, ptr.Deref(s.FailedIndexes, "none")))
	for _, c := range s.Conditions {
		lines = append(lines, fmt.Sprintf("%s=%s %s at %s", c.Type, c.Status, c.Reason, at(c.LastTransitionTime)))
	}
	return lines
}

// randomJob makes a Job whose pods end as its annotations say.
func randomJob(r *rand.Rand) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
	s := &j.Spec
	s.Parallelism = ptr.To(1 + r.Int32N(4))
	if r.IntN(4) > 0 {
		s.Completions = ptr.To(1 + r.Int32N(6))
	}
	codes := fmt.Sprint(r.IntN(2))
	if r.IntN(2) == 0 {
		s.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		s.Completions = ptr.To(1 + r.Int32N(6))
		var all []string
		for i := range *s.Completions {
			if code := []int{0, 0, 0, 1, 42, 43}[r.IntN(6)]; code > 0 {
				all = append(all, fmt.Sprintf("%d:%d", i, code))
			}
		}
		if codes = "0"; len(all) > 0 {
			codes = strings.Join(all, ",")
		}
		switch r.IntN(4) {
		case 0, 1:
			s.BackoffLimitPerIndex = ptr.To(r.Int32N(3))
			if r.IntN(2) == 0 {
				s.MaxFailedIndexes = ptr.To(r.Int32N(*s.Completions))
			}
		case 2:
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To(1 + r.Int32N(*s.Completions))}}}
		}
	}
	if s.BackoffLimitPerIndex == nil {
		s.BackoffLimit = ptr.To(r.Int32N(5))
	}
	s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	switch r.IntN(4) {
	case 0:
		if s.BackoffLimitPerIndex == nil {
			s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
			if s.CompletionMode == nil {
				codes = []string{"1,1,0", "1,0", "1"}[r.IntN(3)]
			}
		}
	case 1, 2:
		code := func(c int32, a batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
			return batchv1.PodFailurePolicyRule{Action: a, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{c},
			}}
		}
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			code(42, batchv1.PodFailurePolicyActionFailJob), code(44, batchv1.PodFailurePolicyActionCount),
		}}
		if s.BackoffLimitPerIndex != nil {
			s.PodFailurePolicy.Rules = append(s.PodFailurePolicy.Rules, code(43, batchv1.PodFailurePolicyActionFailIndex))
		}
	}
	if r.IntN(3) == 0 {
		s.ActiveDeadlineSeconds = ptr.To(1 + r.Int64N(120))
	}
	if r.IntN(4) == 0 {
		j.Annotations = map[string]string{"jobd.dev/backoff-base": "3s", "jobd.dev/backoff-cap": "20s"}
	}
	// Pods that were created in the same second wait for room in the order of their UIDs, which are random. That matters
	// where indexes differ.
	if r.IntN(2) == 0 && s.CompletionMode == nil {
		s.Template.Spec.Containers = controltest.Asking([]string{"500m", "1", "2"}[r.IntN(3)])
	}
	if r.IntN(5) == 0 && s.CompletionMode != nil {
		s.Scheduling = gangOf("j").Spec.Scheduling
		s.Parallelism = ptr.To(min(*s.Parallelism, 3))
	}
	// Pods that start together end at the same moment, in an order that is left to chance. So there is one at a time where
	// the order matters, and none ends at a full second, when deadlines and back-offs do.
	perIndex := s.BackoffLimitPerIndex != nil && s.MaxFailedIndexes == nil && s.PodFailurePolicy == nil
	if codes != "0" && !perIndex || s.SuccessPolicy != nil {
		s.Parallelism, s.Scheduling = ptr.To[int32](1), nil
	}
	s.Template.Annotations = map[string]string{
		simulated.Duration: fmt.Sprintf("%d.3s", 1+r.IntN(30)), simulated.ExitCode: codes,
	}
	return j
}

// asAnnotated behaves as the simulated runtime does.
func asAnnotated(t *testing.T, j *batchv1.Job) func(simulation.Start) simulation.End {
	annotations := j.Spec.Template.Annotations
	after, err := time.ParseDuration(annotations[simulated.Duration])
	if err != nil {
		t.Fatal(err)
	}
	return func(s simulation.Start) simulation.End {
		end := simulation.End{After: after}
		for n, entry := range strings.Split(annotations[simulated.ExitCode], ",") {
			index, code, has := strings.Cut(entry, ":")
			switch {
			case has && index == strconv.Itoa(s.Index):
				end.Exit, _ = strconv.Atoi(code)
			case !has && n <= s.Restart:
				end.Exit, _ = strconv.Atoi(entry)
			}
		}
		return end
	}
}

// What is simulated of many Jobs is what the daemon does: priorities, preemption by eviction and by a pause, concurrency groups, Jobs
// after others, the fair order, and room that is kept for those that have waited for too long; with half of the seeds windows and start
// times, too.
func TestTheSimulationOfManyJobsIsWhatTheDaemonDoes(t *testing.T) {
	for seed := range uint64(120) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 7))
				w := small(t)
				w.Stop()
				w.StarvationAfter = time.Duration(r.IntN(3)) * time.Minute
				config := simulation.Config{
					MaxPods: 1000, Allocatable: requests.Resources{"cpu": 3000, "memory": 1 << 30}, StarvationAfter: w.StarvationAfter,
					Settings: job.Settings{BackoffBase: 10 * time.Second, BackoffCap: 6 * time.Minute},
				}
				if r.IntN(2) == 0 {
					w.Fair, config.HalfLife = &fairness.Policy{HalfLife: time.Hour}, time.Hour
				}
				w.Allocatable = config.Allocatable
				w.Start()
				defer w.End()
				for i, name := range []string{"one", "two"} {
					ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{core.ShareAnnotation: fmt.Sprint(i + 1)}}}
					if r.IntN(3) == 0 {
						ns.Annotations[core.PreemptByAnnotation] = core.PreemptByPause
					}
					if r.IntN(4) == 0 {
						ns.Annotations[core.ConcurrencyLimitAnnotation] = "2"
					}
					w.Put(objects.Key(objects.Namespaces, ns), ns)
					config.Namespaces = append(config.Namespaces, ns)
				}
				for value := range int32(2) {
					class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("class", value)}, Value: value}
					w.Put(store.Key("priorityclasses."+schedulingv1.GroupName, "", class.Name), class)
					config.PriorityClasses = append(config.PriorityClasses, class)
				}
				time.Sleep(1350 * time.Millisecond) // deadlines and the limit of starvation are at full seconds
				var jobs []*batchv1.Job
				for i := range 4 + r.IntN(20) {
					j := randomOfMany(r, i, jobs)
					if seed >= 60 {
						randomTimes(r, i, j)
					}
					w.Create(j)
					jobs = append(jobs, j)
					time.Sleep(time.Duration(1+r.IntN(20)) * time.Second)
				}
				config.Job, config.More, config.Begin = jobs[0], jobs[1:], jobs[0].CreationTimestamp.Time
				annotated := map[string]func(simulation.Start) simulation.End{}
				for _, j := range jobs {
					annotated[j.Name] = asAnnotated(t, j)
				}
				config.Behave = func(s simulation.Start) simulation.End { return annotated[s.Job](s) }
				result, err := simulation.Run(config)
				if err != nil {
					t.Fatal(err)
				}
				if ends := deadlines(result); len(slices.Compact(slices.Clone(ends))) < len(ends) {
					t.Skip("two deadlines end at the same moment, in an order that is left to chance")
				}
				time.Sleep(24 * time.Hour)
				pods := map[string][]*corev1.Pod{}
				for _, p := range w.Pods() {
					name := p.Labels[batchv1.JobNameLabel]
					pods[name] = append(pods[name], p)
				}
				var daemon, simulated []string
				for i, j := range jobs {
					got := &batchv1.Job{}
					if !w.Read(objects.Key(objects.Jobs, j), got) {
						t.Fatal(j.Name + " is gone")
					}
					daemon = append(daemon, begun(got, pods[j.Name], config.Begin)...)
					ofIt := result.Jobs[slices.IndexFunc(result.Jobs, func(r simulation.JobResult) bool { return r.Name == j.Name })]
					simulated = append(simulated, begun(&batchv1.Job{ObjectMeta: jobs[i].ObjectMeta, Status: ofIt.Status}, ofIt.Left, config.Begin)...)
				}
				slices.Sort(daemon)
				slices.Sort(simulated)
				if diff := cmp.Diff(daemon, simulated); diff != "" {
					t.Errorf("-daemon +simulation:\n%s\n%s", diff, result.Text())
				}
			})
		})
	}
}

// deadlines returns when deadlines have ended Jobs, in order.
func deadlines(r *simulation.Result) (ends []int64) {
	for i := range r.Jobs {
		if end := batch.End(&r.Jobs[i].Status); end != nil && end.Reason == batchv1.JobReasonDeadlineExceeded {
			ends = append(ends, end.LastTransitionTime.Unix())
		}
	}
	slices.Sort(ends)
	return ends
}

// begun is what is to be equal of each of many Jobs: when its pods have started, and how it has ended, by the second.
func begun(j *batchv1.Job, pods []*corev1.Pod, begin time.Time) (lines []string) {
	at := func(t metav1.Time) int { return int(t.Sub(begin.Truncate(time.Second)).Seconds()) }
	for _, p := range pods {
		if p.Status.StartTime == nil {
			lines = append(lines, fmt.Sprintf("never: a pod of %s %s", j.Name, p.Status.Phase))
			continue
		}
		lines = append(lines, fmt.Sprintf("%05d: a pod of %s starts, is paused for %s and %s", at(*p.Status.StartTime), j.Name,
			core.PausedFor(p), p.Status.Phase))
	}
	for _, c := range j.Status.Conditions {
		if c.Type == batch.JobWindowClosed && batch.End(&j.Status) == nil {
			continue // the window of one that waits for ever opens and closes as long as anybody looks
		}
		lines = append(lines, fmt.Sprintf("%05d: %s is %s=%s %s", at(c.LastTransitionTime), j.Name, c.Type, c.Status, c.Reason))
	}
	return append(lines, fmt.Sprintf("%s: active %d succeeded %d failed %d", j.Name, j.Status.Active, j.Status.Succeeded, j.Status.Failed))
}

// randomOfMany makes a Job of one pod, which may have to do with those before it.
func randomOfMany(r *rand.Rand, i int, before []*batchv1.Job) *batchv1.Job {
	// No two pods end at the same moment, and none at a full second.
	j := controltest.Simulate(fmt.Sprintf("j%02d", i), fmt.Sprintf("%d.%03ds", 5+r.IntN(90), 100+7*i), fmt.Sprint(r.IntN(8)/7))
	j.Namespace, j.Annotations = []string{"one", "two"}[r.IntN(2)], map[string]string{}
	j.Spec.BackoffLimit = ptr.To[int32](0)
	j.Spec.Template.Spec.Containers = controltest.Asking([]string{"500m", "1", "2", "3"}[r.IntN(4)])
	if r.IntN(3) == 0 {
		j.Spec.Template.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse([]string{"100Mi", "600Mi"}[r.IntN(2)])
	}
	j.Spec.Template.Spec.PriorityClassName = []string{"", "class0", "class1", "class1"}[r.IntN(4)]
	if r.IntN(4) == 0 {
		j.Spec.ActiveDeadlineSeconds = ptr.To(20 + r.Int64N(200))
	}
	if r.IntN(2) == 0 {
		j.Annotations[core.PreemptByAnnotation] = []string{core.PreemptByPause, core.PreemptByEviction}[r.IntN(2)]
	}
	if r.IntN(4) == 0 {
		j.Annotations[core.ConcurrencyGroupAnnotation] = []string{"db", "net"}[r.IntN(2)]
		j.Annotations[core.ConcurrencyLimitAnnotation] = fmt.Sprint(1 + r.IntN(2))
		j.Annotations[core.ConcurrencyPolicyAnnotation] = []string{core.QueueConcurrent, core.ReplaceConcurrent, core.ForbidConcurrent}[r.IntN(3)]
	}
	if last := len(before) - 1; last >= 0 && before[last].Namespace == j.Namespace && r.IntN(2) == 0 { // each has one behind it at most
		j.Annotations[batch.AfterAnnotation] = before[last].Name + ":" + []string{batch.NeedOK, batch.NeedAny}[r.IntN(2)]
		j.Spec.Suspend = ptr.To(true)
	}
	return j
}

// randomTimes gives a Job a start time or a window. No two begin or end at the same moment.
func randomTimes(r *rand.Rand, i int, j *batchv1.Job) {
	today := time.Now().UTC().Truncate(24 * time.Hour)
	if r.IntN(4) == 0 {
		j.Annotations[batch.StartAtAnnotation] = today.Add(time.Duration(30+r.IntN(8))*time.Minute/4 + time.Duration(i)*time.Second/2).Format(time.RFC3339Nano)
		j.Spec.Suspend = ptr.To(true)
	}
	if r.IntN(3) == 0 {
		first, lasts := r.IntN(3)*24+i, 1+r.IntN(2)
		maps.Copy(j.Annotations, inWindow(fmt.Sprintf("00:%02d-00:%02d, 02:%02d-24:00", first%58, first%58+lasts, i),
			[]string{core.WindowFinish, core.WindowPause, core.WindowStop}[r.IntN(3)]))
	}
}

// What is simulated of a JobSet is what the daemon does: which groups begin when, which failures begin it anew, and how it ends.
func TestTheSimulationOfAJobSetIsWhatTheDaemonDoes(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				spec := randomJobSet(rand.New(rand.NewPCG(seed, 8)))
				time.Sleep(1350 * time.Millisecond)
				js := w.CreateJobSet("s", spec)
				begin := js.CreationTimestamp.Time
				annotated := map[string]func(simulation.Start) simulation.End{}
				for _, g := range js.Spec.ReplicatedJobs {
					annotated[g.Name] = asAnnotated(t, &batchv1.Job{Spec: g.Template.Spec})
				}
				result, err := simulation.Run(simulation.Config{
					JobSets: []*jobsetv1.JobSet{js}, Begin: begin, MaxPods: 1000, Allocatable: requests.Resources{"cpu": 3000},
					Settings: job.Settings{BackoffBase: 10 * time.Second, BackoffCap: 6 * time.Minute},
					Behave:   func(s simulation.Start) simulation.End { return annotated[s.Group](s) },
				})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Hour)
				daemon := endOfSet(&w.JobSet("s").Status, begin)
				for _, name := range w.JobNames() {
					daemon = append(daemon, endOfJob(w.Job(name), begin))
				}
				simulated := endOfSet(&result.JobSets[0].Status, begin)
				for _, j := range result.Jobs {
					simulated = append(simulated, endOfJob(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: j.Name}, Status: j.Status}, begin))
				}
				slices.Sort(daemon)
				slices.Sort(simulated)
				if diff := cmp.Diff(daemon, simulated); diff != "" {
					t.Errorf("%s\n-daemon +simulation:\n%s\n%s", spec, diff, result.Text())
				}
			})
		})
	}
}

func endOfSet(s *jobsetv1.JobSetStatus, begin time.Time) (lines []string) {
	lines = append(lines, fmt.Sprintf("restarts %d, %d of them count, %s", s.Restarts, s.RestartsCountTowardsMax, s.TerminalState))
	for _, g := range s.ReplicatedJobsStatus {
		lines = append(lines, fmt.Sprintf("group %s: %d ready, %d succeeded, %d failed", g.Name, g.Ready, g.Succeeded, g.Failed))
	}
	for _, c := range s.Conditions {
		at := int(c.LastTransitionTime.Sub(begin.Truncate(time.Second)).Seconds())
		lines = append(lines, fmt.Sprintf("%s=%s %s at %d", c.Type, c.Status, c.Reason, at))
	}
	return lines
}

func endOfJob(j *batchv1.Job, begin time.Time) string {
	said := "goes on"
	if end := batch.End(&j.Status); end != nil {
		said = fmt.Sprintf("%s at %d", end.Reason, int(end.LastTransitionTime.Sub(begin.Truncate(time.Second)).Seconds()))
	}
	return fmt.Sprintf("%s: %d succeeded, %d failed, %s", j.Name, j.Status.Succeeded, j.Status.Failed, said)
}

// randomJobSet makes the spec of a JobSet of which no two Jobs end at the same moment where their order matters, which is left to chance.
func randomJobSet(r *rand.Rand) string {
	var groups, fields []string
	any := r.IntN(4) == 0
	if any {
		fields = append(fields, "successPolicy: {operator: Any}")
	}
	for i := range 1 + r.IntN(4) {
		depends := ""
		if i > 0 && r.IntN(2) == 0 {
			depends = fmt.Sprintf("dependsOn: [{name: g%d, status: %s}], ", r.IntN(i), []string{"Ready", "Complete"}[r.IntN(2)])
		}
		limits := fmt.Sprintf("backoffLimit: %d", r.IntN(2))
		if r.IntN(4) == 0 {
			limits += fmt.Sprintf(", activeDeadlineSeconds: %d", 20+r.IntN(60))
		}
		replicas, pods, code := 1+r.IntN(3), 1+r.IntN(3), r.IntN(5)/4
		parallelism := 1 + r.IntN(pods)
		if code > 0 || any || strings.Contains(limits, "Deadline") {
			replicas, parallelism = 1, 1
		}
		groups = append(groups, fmt.Sprintf(`{name: g%d, %sreplicas: %d, template: {spec: {%s, completions: %d, parallelism: %d, template: {metadata: {
			annotations: {%s: %d.%ds, %s: "%d"}}, spec: {restartPolicy: Never}}}}}`, i, depends, replicas, limits, pods, parallelism,
			simulated.Duration, 1+r.IntN(30), 101+i*13, simulated.ExitCode, code))
	}
	if r.IntN(3) > 0 {
		rules := ""
		if r.IntN(2) == 0 {
			rules = fmt.Sprintf(`, rules: [{action: %s, onJobFailureReasons: [DeadlineExceeded]}]`, []string{"FailJobSet", "RestartJobSet"}[r.IntN(2)])
		}
		fields = append(fields, fmt.Sprintf("failurePolicy: {maxRestarts: %d, restartStrategy: %s%s}", r.IntN(4),
			[]string{"Recreate", "BlockingRecreate"}[r.IntN(2)], rules))
	}
	if r.IntN(4) == 0 && !strings.Contains(strings.Join(groups, ""), "dependsOn") {
		fields = append(fields, "startupPolicy: {startupPolicyOrder: InOrder}")
	}
	if r.IntN(10) == 0 {
		fields = append(fields, "suspend: true")
	}
	return "{" + strings.Join(append(fields, "replicatedJobs: ["+strings.Join(groups, ", ")+"]"), ", ") + "}"
}
