package picture

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/picture"
)

// setOf makes a JobSet of a leader, two workers that wait until it is ready, and an evaluation that waits until they are complete.
func setOf(change func(*jobsetv1.JobSet)) *jobsetv1.JobSet {
	js := &jobsetv1.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "u", CreationTimestamp: metav1.NewTime(begin)}}
	js.Spec.ReplicatedJobs = []jobsetv1.ReplicatedJob{
		{Name: "leader", Replicas: 1},
		{Name: "workers", Replicas: 2, DependsOn: []jobsetv1.DependsOn{{Name: "leader", Status: jobsetv1.DependencyReady}}},
		{Name: "eval", Replicas: 1, DependsOn: []jobsetv1.DependsOn{{Name: "workers", Status: jobsetv1.DependencyComplete}}},
	}
	change(js)
	return js
}

func ends(t jobsetv1.JobSetConditionType, reason, message string) func(*jobsetv1.JobSet) {
	return func(js *jobsetv1.JobSet) {
		js.Status.Conditions = []metav1.Condition{{
			Type: string(t), Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(begin),
		}}
	}
}

func TestDrawSet(t *testing.T) {
	job := func(group string, index int, state string) JobOfSet {
		return JobOfSet{Group: group, Name: jobset.JobName("s", group, index), Attempt: "0", State: state}
	}
	leads := func(js *jobsetv1.JobSet) {
		js.Status.ReplicatedJobsStatus = []jobsetv1.ReplicatedJobStatus{{Name: "leader", Ready: 1}}
	}
	for name, tc := range map[string]struct {
		of   *jobsetv1.JobSet
		jobs []JobOfSet
		// want is the state, which policy has decided, and the groups with what they wait for.
		want string
	}{
		"nothing is there yet": {
			of:   setOf(func(*jobsetv1.JobSet) {}),
			want: "Waiting  0 leader Waiting - [] 1 workers Waiting -2 [leader ready 0/1 false] 2 eval Waiting - [workers complete 0/2 false]",
		},
		"one group waits for another": {
			of: setOf(leads), jobs: []JobOfSet{job("leader", 0, batch.StateRunning), job("workers", 1, batch.StateWaiting)},
			want: "Running  0 leader Running r [] 1 workers Waiting -w [leader ready 1/1 true] 2 eval Waiting - [workers complete 0/2 false]",
		},
		"a group that has begun waits no more, whatever became of the other": {
			of: setOf(func(*jobsetv1.JobSet) {}), jobs: []JobOfSet{job("leader", 0, batch.StateWaiting), job("workers", 0, batch.StateComplete)},
			want: "Waiting  0 leader Waiting w [] 1 workers Running s- [leader ready 0/1 true] 2 eval Waiting - [workers complete 0/2 false]",
		},
		"suspended": {
			of:   setOf(func(js *jobsetv1.JobSet) { js.Spec.Suspend = ptr.To(true) }),
			jobs: []JobOfSet{job("leader", 0, batch.StateSuspended)},
			want: "Suspended  0 leader Suspended p [] 1 workers Waiting -2 [leader ready 0/1 false] 2 eval Waiting - [workers complete 0/2 false]",
		},
		"one group after the other": {
			of: setOf(func(js *jobsetv1.JobSet) {
				js.Spec.StartupPolicy = &jobsetv1.StartupPolicy{StartupPolicyOrder: jobsetv1.InOrder}
				for i := range js.Spec.ReplicatedJobs {
					js.Spec.ReplicatedJobs[i].DependsOn = nil
				}
				leads(js)
			}),
			jobs: []JobOfSet{
				job("leader", 0, batch.StateRunning), job("workers", 0, batch.StateRunning), job("workers", 1, batch.StateWaiting),
				job("eval", 0, batch.StateSuspended),
			},
			want: "Running  0 leader Running r [] 1 workers Running rw [leader ready 1/1 true] 2 eval Suspended p [workers ready 0/2 false]",
		},
		"it begins anew": {
			of: setOf(func(js *jobsetv1.JobSet) {
				ends(jobsetv1.JobSetRestarting, "FailurePolicy_r", "applying RestartJobSet (first failed job: s-workers-0)")(js)
				js.Status.Restarts, js.Spec.FailurePolicy = 1, &jobsetv1.FailurePolicy{}
			}),
			jobs: []JobOfSet{job("workers", 0, batch.StateTerminating), {Group: "leader", Name: "s-leader-0", Attempt: "1", State: batch.StateWaiting}},
			want: "Restarting failurePolicy: FailurePolicy_r (Job s-workers-0 failed) 1 former " +
				"0 leader Waiting w [] 1 workers Waiting -2 [leader ready 0/1 false] 2 eval Waiting - [workers complete 0/2 false]",
		},
		"it has failed": {
			of: setOf(func(js *jobsetv1.JobSet) {
				ends(jobsetv1.JobSetFailed, "ReachedMaxRestarts", "too often (first failed job: s-workers-0)")(js)
				js.Spec.FailurePolicy = &jobsetv1.FailurePolicy{}
			}),
			jobs: []JobOfSet{job("leader", 0, batch.StateComplete), job("workers", 0, batch.StateFailed), job("workers", 1, batch.StateComplete)},
			want: "Failed failurePolicy: ReachedMaxRestarts (Job s-workers-0 failed) " +
				"0 leader Complete s [] 1 workers Failed fs [leader ready 0/1 true] 2 eval  - [workers complete 0/2 false]",
		},
		"it is complete before all Jobs are": {
			of: setOf(func(js *jobsetv1.JobSet) {
				ends(jobsetv1.JobSetCompleted, "AllJobsCompleted", "done")(js)
				js.Spec.SuccessPolicy = &jobsetv1.SuccessPolicy{Operator: jobsetv1.OperatorAny, TargetReplicatedJobs: []string{"workers"}}
			}),
			jobs: []JobOfSet{job("workers", 0, batch.StateComplete), job("workers", 1, batch.StateTerminating)},
			want: "Complete successPolicy: one Job of workers 0 leader  - [] 1 workers Terminating st [leader ready 0/1 true] 2 eval  - [workers complete 0/2 false]",
		},
		"Jobs that are none of any group": {
			of: setOf(func(js *jobsetv1.JobSet) { js.Spec.ReplicatedJobs = js.Spec.ReplicatedJobs[:1] }),
			jobs: []JobOfSet{
				job("x", 0, batch.StateWaiting), job("leader", -1, batch.StateWaiting), job("leader", 1, batch.StateWaiting),
				{Group: "leader", Name: "y", Attempt: "0"},
			},
			want: "Waiting  0 leader Waiting - []",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := DrawSet(tc.of, tc.jobs, begin)
			got := p.State + " " + p.Decided
			if p.Former > 0 {
				got += fmt.Sprint(" ", p.Former, " former")
			}
			for _, g := range p.Groups {
				after := ""
				for _, a := range g.After {
					after += fmt.Sprint(a.Group, " ", a.Status, " ", a.Has, "/", a.Of, " ", a.Met)
				}
				got += fmt.Sprint(" ", g.Layer, " ", g.Name, " ", g.State, " ", g.Jobs, " [", after, "]")
			}
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// The largest JobSets that there can be are still small as a picture: ten thousand Jobs, or two hundred groups.
func TestLargeSetsAreSmall(t *testing.T) {
	js := setOf(func(js *jobsetv1.JobSet) { js.Spec.ReplicatedJobs = nil })
	var jobs []JobOfSet
	for i := range 200 {
		g := jobsetv1.ReplicatedJob{Name: fmt.Sprint("g", i), Replicas: 50}
		for k := range min(i, 5) {
			g.DependsOn = append(g.DependsOn, jobsetv1.DependsOn{Name: fmt.Sprint("g", i-1-k), Status: jobsetv1.DependencyReady})
		}
		js.Spec.ReplicatedJobs = append(js.Spec.ReplicatedJobs, g)
		for k := range 50 {
			state := []string{batch.StateRunning, batch.StateWaiting}[k%2]
			jobs = append(jobs, JobOfSet{Group: g.Name, Name: jobset.JobName("s", g.Name, k), Attempt: "0", State: state})
		}
	}
	p := DrawSet(js, jobs, begin.Add(time.Hour))
	text, err := json.Marshal(p)
	if err != nil || len(text) > 128<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if last := p.Groups[199]; last.Layer != 199 || last.Counts[batch.StateRunning] != 25 || last.State != batch.StateRunning {
		t.Errorf("%+v", last)
	}
	if states, err := picture.Symbols(p.Groups[0].Jobs, 50); err != nil || len(states) != 50 {
		t.Errorf("%q, %v", states, err)
	}
}
