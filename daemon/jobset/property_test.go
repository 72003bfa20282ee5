package jobset

import (
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
)

// randomSpec returns a JobSet of up to four groups.
func randomSpec(random *rand.Rand) string {
	var groups []string
	inOrder := random.Intn(4) == 0
	for i := range 1 + random.Intn(4) {
		depends := ""
		if i > 0 && !inOrder && random.Intn(2) == 0 {
			depends = fmt.Sprintf("dependsOn: [{name: g%d, status: %s}], ", random.Intn(i), []string{"Ready", "Complete"}[random.Intn(2)])
		}
		groups = append(groups, fmt.Sprintf("{name: g%d, %sreplicas: %d}", i, depends, 1+random.Intn(3)))
	}
	spec := "replicatedJobs: [" + strings.Join(groups, ", ") + "]\n"
	if inOrder {
		spec += "startupPolicy: {startupPolicyOrder: InOrder}\n"
	}
	if random.Intn(4) > 0 {
		spec += fmt.Sprintf("failurePolicy: {maxRestarts: %d, restartStrategy: %s, rules: [{action: %s, onJobFailureReasons: [DeadlineExceeded]}]}\n",
			random.Intn(4), []string{"Recreate", "BlockingRecreate"}[random.Intn(2)],
			[]string{"FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"}[random.Intn(3)])
	}
	if random.Intn(3) == 0 {
		spec += "successPolicy: {operator: Any}\n"
	}
	return spec
}

// happen lets something happen to a JobSet or one of its Jobs.
func (w *world) happen(random *rand.Rand) {
	names := slices.Sorted(maps.Keys(w.jobs))
	if len(names) == 0 || random.Intn(12) == 0 {
		w.js.Spec.Suspend = ptr.To(random.Intn(2) == 0)
		return
	}
	name := names[random.Intn(len(names))]
	j := w.jobs[name]
	ended := len(j.Status.Conditions) > 0
	switch n := random.Intn(10); {
	case j.DeletionTimestamp != nil:
		if n < 5 {
			w.leave(name)
		}
	case n == 0:
		w.leave(name) // somebody deletes it
	case ended || *j.Spec.Suspend:
	case n < 5:
		w.change(name, w.ready)
	case n < 8:
		w.change(name, func(j *batchv1.Job) { w.end(j, batchv1.JobComplete, "CompletionsReached", "") })
	case n == 8:
		w.change(name, func(j *batchv1.Job) { w.end(j, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "") })
	default:
		w.change(name, func(j *batchv1.Job) { w.end(j, batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded, "") })
	}
}

// Whatever happens, a record that has followed it decides as one that is made anew of what is stored: a daemon that is killed at any
// moment goes on where it was. No Job is there twice, and after a decision all that goes on is of the present attempt.
func TestAnyJobSet(t *testing.T) {
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		var spec string
		w := newWorld(t, func() string { spec = randomSpec(random); return spec }(), func(string) {})
		for step := range 60 {
			w.now = w.now.Add(time.Duration(random.Intn(3)) * time.Second)
			w.batch = 1 + random.Intn(4)
			w.happen(random)
			anew := NewRecord(w.js)
			for _, j := range w.jobs {
				anew.SetJob(j)
			}
			is, want := Decide(w.js, w.r, w.now, w.batch), Decide(w.js, anew, w.now, w.batch)
			if !reflect.DeepEqual(is, want) {
				t.Fatalf("seed %d, step %d, %s: it decides\n%+v\nand anew\n%+v", seed, step, spec, is, want)
			}
			blocking := w.js.Spec.FailurePolicy != nil && w.js.Spec.FailurePolicy.RestartStrategy == jobsetv1.BlockingRecreate
			if former := len(w.r.former) + w.r.departing; blocking && former > 0 && len(is.Create) > 0 {
				t.Fatalf("seed %d, step %d, %s: it creates %v beside %d Jobs of the former attempt", seed, step, spec, is.Create, former)
			}
			if random.Intn(5) == 0 {
				w.restart()
			}
			w.settle()
			w.check(seed, step, spec)
			if t.Failed() {
				return
			}
		}
	}
}

// check checks what holds after each decision.
func (w *world) check(seed int64, step int, spec string) {
	w.t.Helper()
	fail := func(format string, args ...any) {
		w.t.Helper()
		w.t.Errorf("seed %d, step %d, %s: %s", seed, step, spec, fmt.Sprintf(format, args...))
	}
	status := &w.js.Status
	over := jobset.End(status) != nil
	if (status.TerminalState != "") != over {
		fail("it is %q, with %+v", status.TerminalState, status.Conditions)
	}
	if policy := w.js.Spec.FailurePolicy; policy != nil && status.RestartsCountTowardsMax > policy.MaxRestarts ||
		policy == nil && status.Restarts > 0 {
		fail("it has begun anew %d times", status.RestartsCountTowardsMax)
	}
	for name, j := range w.jobs {
		going := len(j.Status.Conditions) == 0 && j.DeletionTimestamp == nil
		switch attempt := j.Labels[jobset.RestartAttemptKey]; {
		case going && over:
			fail("%s goes on after the end", name)
		case j.DeletionTimestamp == nil && attempt != fmt.Sprint(status.Restarts):
			fail("%s is of attempt %s, not %d", name, attempt, status.Restarts)
		case going && jobset.Suspended(w.js) && !*j.Spec.Suspend:
			fail("%s is not suspended", name)
		}
	}
}
