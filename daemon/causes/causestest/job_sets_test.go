package causestest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/causes/parents"
	"github.com/jobd/jobd/daemon/hold"
)

// setCase is a JobSet in a state: of two groups, data, and workers that wait until data is complete.
type setCase struct {
	change func(*jobsetv1.JobSet)
	needs  []hold.Outcome // of those in its annotation
	events []corev1.Event
	jobs   []*batchv1.Job
	told   *why.Explanation
	want   []string
}

func jobOfSet(name, group, restart string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "n", CreationTimestamp: metav1.NewTime(Now),
		Labels:          map[string]string{jobsetv1.ReplicatedJobNameKey: group, jobsetv1.JobIndexKey: "0", jobset.RestartAttemptKey: restart},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "s", UID: "s", Controller: ptr.To(true)}},
	}}
}

func failedJob(j *batchv1.Job) *batchv1.Job {
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}}
	return j
}

func setCases() map[string]setCase {
	condition := func(t jobsetv1.JobSetConditionType, reason, message string) func(*jobsetv1.JobSet) {
		return func(js *jobsetv1.JobSet) {
			js.Status.Conditions = append(js.Status.Conditions, metav1.Condition{
				Type: string(t), Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(Now),
			})
			js.Spec.TTLSecondsAfterFinished = ptr.To[int32](60)
		}
	}
	event := func(reason, message string) []corev1.Event {
		return []corev1.Event{{
			InvolvedObject: corev1.ObjectReference{UID: "s"}, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(Now.Add(time.Minute)),
		}}
	}
	failed := Cases()["exit code"]
	return map[string]setCase{
		"a group waits for another": {want: []string{
			"waits: group workers waits until data is complete. So far 0 of 3 Jobs succeeded.", "The group workers waits until all Jobs of data are complete: 0 of 1 are."}},
		"by the startup policy": {change: func(js *jobsetv1.JobSet) {
			js.Spec.ReplicatedJobs[1].DependsOn = nil
			js.Spec.StartupPolicy = &jobsetv1.StartupPolicy{StartupPolicyOrder: jobsetv1.InOrder}
		}, want: []string{"The group workers waits until all Jobs of data are ready: 0 of 1 are. (startupPolicy InOrder)"}},
		"many groups wait": {change: func(js *jobsetv1.JobSet) {
			for i := range 20 {
				g := js.Spec.ReplicatedJobs[1]
				g.Name = fmt.Sprint("w", i)
				js.Spec.ReplicatedJobs = append(js.Spec.ReplicatedJobs, g)
			}
		}, want: []string{"11 more groups wait in the same way."}},
		"one of its Jobs waits": {jobs: []*batchv1.Job{jobOfSet("s-data-0", "data", "0")}, told: failed.Explain(), want: []string{"Job j waits: "}},
		"one of its Jobs made it fail": {change: func(js *jobsetv1.JobSet) {
			js.Status.Restarts, js.Spec.FailurePolicy = 1, &jobsetv1.FailurePolicy{MaxRestarts: 1}
			condition(jobsetv1.JobSetFailed, "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts (first failed job: j)")(js)
		}, told: failed.Explain(), want: []string{
			"has failed (ReachedMaxRestarts): Job j failed: ", "Its Job j failed, and its maxRestarts of 1 allows no more attempts: it has begun anew once.",
			"jobctl submit --replace -f FILE", "This is attempt 2."}},
		"without a policy": {change: condition(jobsetv1.JobSetFailed, "FailedJobs", "jobset failed (first failed job: s-data-0)"),
			want: []string{"Its Job s-data-0 failed, and it has no failurePolicy that would begin it anew."}},
		"by a rule": {change: condition(jobsetv1.JobSetFailed, "FailJobSetFailurePolicyAction", "applying (first failed job: s-data-0)"),
			want: []string{"Its Job s-data-0 failed, and a rule of its failurePolicy ends it then (FailJobSet)."}},
		"complete": {change: condition(jobsetv1.JobSetCompleted, "AllJobsCompleted", "jobset completed successfully"),
			want: []string{"is complete: ", "It is removed, with its Jobs and their logs, by its ttlSecondsAfterFinished of 1m0s."}},
		"suspended": {change: func(js *jobsetv1.JobSet) {
			js.Spec.Suspend = ptr.To(true)
			js.Labels = map[string]string{batch.KueueLabel: "q"}
		}, want: []string{"is suspended.", "has no effect here: there is no Kueue", "jobctl resume jobsets/s -n n"}},
		"after others": {change: func(js *jobsetv1.JobSet) {
			js.Spec.Suspend = ptr.To(true)
			js.Annotations = map[string]string{batch.AfterAnnotation: "prep,jobsets/data,jobsets/eval:any"}
		}, needs: []hold.Outcome{{Exists: true, State: "Running"}, {Exists: true, Result: "Failed", Ended: Now}, {}}, want: []string{
			"waits: Job prep has to complete first.", "has not ended (Running): this JobSet waits for prep to complete.", "jobctl why jobs/prep -n n",
			"has failed, and this JobSet waits for jobsets/data to complete. One of that name that is created anew, and completes, lets this JobSet start.",
			"is not there yet: this JobSet waits until it is, and for jobsets/eval to end.", "jobctl resume jobsets/s -n n"}},
		"a gang": {change: func(js *jobsetv1.JobSet) { js.Annotations = map[string]string{jobset.GangAnnotation: "true"} },
			want: []string{"Its 1 pods of data start together or wait together (jobd.dev/gang)."}},
		"paused": {change: func(js *jobsetv1.JobSet) {
			js.Annotations = map[string]string{batch.PausedAnnotation: "2023-11-14T22:00:00Z"}
		}, want: []string{"is paused. So far", "It is paused (jobd.dev/paused-at)", "jobctl continue jobsets/s -n n"}},
		"managed elsewhere": {change: func(js *jobsetv1.JobSet) { js.Spec.ManagedBy = ptr.To("example.com/x") },
			want: []string{"nothing here makes its Jobs"}},
		"deleted": {change: func(js *jobsetv1.JobSet) {
			js.DeletionTimestamp, js.Finalizers = ptr.To(metav1.NewTime(Now)), []string{"example.com/x"}
		}, want: []string{"once its finalizers are gone: example.com/x."}},
		"a name is taken": {events: event("JobCreationFailed", `job "s-data-0" creation failed with error: it exists`),
			want: []string{`What it needs cannot be created, and is tried again: job "s-data-0" creation failed`}},
		"those before have to go": {change: func(js *jobsetv1.JobSet) {
			js.Status.Restarts = 1
			js.Spec.FailurePolicy = &jobsetv1.FailurePolicy{MaxRestarts: 3, RestartStrategy: jobsetv1.BlockingRecreate}
			js.Status.RestartsCountTowardsMax = 1
		}, jobs: []*batchv1.Job{jobOfSet("s-data-0", "data", "0")},
			events: event("RestartJobSetFailurePolicyAction", "applying RestartJobSet failure policy action (first failed job: s-data-0)"),
			want: []string{"none is made again until all are gone (BlockingRecreate): s-data-0.", "It may begin anew 2 times more (maxRestarts 3).",
				"(first failed job: s-data-0)"}},
		"the next attempt is put off": {change: func(js *jobsetv1.JobSet) {
			js.Status.Restarts = 9
			js.Spec.FailurePolicy = &jobsetv1.FailurePolicy{MaxRestarts: 30}
		}, jobs: []*batchv1.Job{failedJob(jobOfSet("s-data-0", "data", "9"))},
			want: []string{"begins anew at", "Job s-data-0 of attempt 10 has failed, and the next attempt begins at", "attempts that fail soon"}},
		"what has to succeed": {change: func(js *jobsetv1.JobSet) {
			js.Spec.SuccessPolicy = &jobsetv1.SuccessPolicy{Operator: jobsetv1.OperatorAll, TargetReplicatedJobs: []string{"workers"}}
		}, want: []string{"once all Jobs of workers have succeeded: 0 of 2 have."}},
	}
}

func (c setCase) explain() *why.Explanation {
	js := &jobsetv1.JobSet{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n", UID: "s"}}
	js.Spec.ReplicatedJobs = []jobsetv1.ReplicatedJob{
		{Name: "data", Replicas: 1},
		{Name: "workers", Replicas: 2, DependsOn: []jobsetv1.DependsOn{{Name: "data", Status: jobsetv1.DependencyComplete}}},
	}
	js.Status.ReplicatedJobsStatus = []jobsetv1.ReplicatedJobStatus{{Name: "workers"}, {Name: "data"}}
	if c.change != nil {
		c.change(js)
	}
	w := causes.World{Now: Now, Source: why.FromRecords, Events: c.events}
	for i, o := range c.needs {
		n := batch.After(js.Annotations)[i]
		w.Needs = append(w.Needs, hold.Need{Need: n, Outcome: o, Verdict: hold.Judge(n, o, Now)})
	}
	return parents.JobSet(w, js, c.jobs, c.told)
}

func TestWhyAJobSetIsInItsState(t *testing.T) {
	for name, tc := range setCases() {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := why.Print(&out, tc.explain()); err != nil {
				t.Fatal(err)
			}
			said := strings.Join(strings.Fields(out.String()), " ")
			for _, want := range tc.want {
				if !strings.Contains(said, want) {
					t.Errorf("it says %s, and not %s", out.String(), want)
				}
			}
		})
	}
}

// What a Job and a pod say of the JobSet.
func TestWhyNamesTheJobSet(t *testing.T) {
	c := Cases()["exit code"]
	j := c.Job.DeepCopy()
	of := jobOfSet("", "workers", "2")
	j.OwnerReferences, j.Labels = of.OwnerReferences, of.Labels
	c.Job = j
	for _, said := range []*why.Explanation{c.Explain(), causes.Pod(c.world(), c.Pods[0], j)} {
		found := why.Find(said.Causes, "PartOfJobSet")
		if found == nil || found.Object.String() != "jobsets/s" ||
			found.Message != "controls this Job, as number 0 of its group workers, made when that had begun anew (restart 2)." {
			t.Errorf("it says %+v", found)
		}
		for _, c := range said.Causes {
			for _, help := range c.Help {
				if strings.HasPrefix(help, "jobctl retry") {
					t.Errorf("%s helps nobody", help)
				}
			}
		}
	}
}
