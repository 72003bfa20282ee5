package causes

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/why"
)

// TestJobsWhosePodsNeverStarted: of a Job that its deadline has ended before any container started, what held it up is the
// reason, and more time is not advised.
func TestJobsWhosePodsNeverStarted(t *testing.T) {
	const unpulled = `Failed to pull image "busybx": no such host`
	event := func(seconds int, reason, message string) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "j-x", UID: "p", FieldPath: "spec.containers{c}"},
			LastTimestamp:  metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)), Reason: reason, Message: message,
		}
	}
	for name, tc := range map[string]struct {
		events []corev1.Event
		reason string // what the Job is said to have failed for
		retry  string // what is advised; empty: nothing
	}{
		"nothing is known": {nil, "ran longer than its activeDeadlineSeconds of 5s", "jobctl retry jobs/j -n n --deadline 2x"},
		"they started": {
			[]corev1.Event{event(-4, "Failed", unpulled), event(-3, "Started", "Container started")},
			"ran longer than its activeDeadlineSeconds of 5s", "jobctl retry jobs/j -n n --deadline 2x",
		},
		"no image": {
			[]corev1.Event{event(-4, "Failed", unpulled), event(-4, "Failed", "Error: ErrImagePull"), event(-3, "BackOff", "Back-off pulling image")},
			"its pods never started: " + unpulled, "jobctl retry jobs/j -n n --image IMAGE",
		},
		"no room": {
			[]corev1.Event{event(-4, "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available")},
			"its pods never started: 0/1 nodes are available: 1 Insufficient cpu", "jobctl retry jobs/j -n n --cpu CPUS",
		},
		"a taint": {
			[]corev1.Event{event(-4, "FailedScheduling", "0/1 nodes are available: 1 node(s) had untolerated taint(s).")},
			"its pods never started: 0/1 nodes are available: 1 node(s) had untolerated taint(s)", "",
		},
		"no volume": {
			[]corev1.Event{event(-4, "FailedMount", `configmap "c" not found`)}, `its pods never started: configmap "c" not found`, "",
		},
		"an attempt before": {
			[]corev1.Event{event(-60, "Failed", unpulled)}, "ran longer than its activeDeadlineSeconds of 5s", "jobctl retry jobs/j -n n --deadline 2x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(func(j *batchv1.Job) {
				j.Status.Conditions = ends(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded)
				j.Status.Failed, j.Status.StartTime = 1, &metav1.Time{Time: now.Add(-5 * time.Second)}
				five := int64(5)
				j.Spec.ActiveDeadlineSeconds = &five
				j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
			})
			var pods []*corev1.Pod
			if tc.retry != "jobctl retry jobs/j -n n --deadline 2x" { // at the end of the Job its pods may still be there
				pods = append(pods, failedPod(137, "ContainerStatusUnknown"))
			}
			said := Job(World{Now: now, Source: why.FromRecords, Events: tc.events}, j, pods)
			if said.Reason != tc.reason {
				t.Errorf("it failed for %q, want %q", said.Reason, tc.reason)
			}
			retry := ""
			for _, c := range said.Causes {
				for _, c := range append(c.Causes, c) {
					for _, help := range c.Help {
						if strings.HasPrefix(help, "jobctl retry ") {
							retry = help
						}
					}
				}
			}
			if retry != tc.retry {
				t.Errorf("it advises %q, want %q", retry, tc.retry)
			}
		})
	}
}

// TestProgramsThatWouldNotRunAgain: no other attempt is advised while it would only repeat that the program cannot be executed.
func TestProgramsThatWouldNotRunAgain(t *testing.T) {
	absent := failedPod(128, "StartError")
	absent.Status.ContainerStatuses[0].State.Terminated.Message = "executable file `nosuch` not found in $PATH: No such file or directory"
	forbidden := failedPod(128, "StartError")
	forbidden.Status.ContainerStatuses[0].State.Terminated.Message = "open executable: Permission denied"
	short := failedPod(128, "StartError")
	short.Status.ContainerStatuses[0].State.Terminated.Message = "container init was OOM-killed (memory limit too low?)"
	other := failedPod(1, "Error")
	other.UID = "other"
	log := func(p *corev1.Pod, _ string, _ bool) []string {
		if p.Annotations["log"] != "" {
			return []string{p.Annotations["log"]}
		}
		return nil
	}
	foreign := failedPod(1, "Error")
	foreign.Annotations = map[string]string{"log": "exec /arm: exec format error"}
	for name, tc := range map[string]struct {
		pods  []*corev1.Pod
		retry bool
	}{
		"a command that is not there":      {[]*corev1.Pod{absent}, false},
		"one that may not be executed":     {[]*corev1.Pod{forbidden}, false},
		"one for another processor":        {[]*corev1.Pod{foreign}, false},
		"too little memory to start":       {[]*corev1.Pod{short}, true},
		"a program that has failed":        {[]*corev1.Pod{other}, true},
		"most were programs that have run": {[]*corev1.Pod{absent, other, other}, true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(func(j *batchv1.Job) {
				j.Status.Conditions = ends(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
			})
			end := Job(World{Now: now, Source: why.FromRecords, Log: log}, j, tc.pods).Causes[0]
			if advised := len(end.Help) > 0; advised != tc.retry {
				t.Errorf("it advises %q, and says %q", end.Help, end.Message)
			}
			if says := strings.Contains(end.Message, "Another attempt would end in the same way"); says == tc.retry {
				t.Errorf("it says %q", end.Message)
			}
		})
	}
}

// TestExitCodesOfPodsThatAreGone: they are in the history.
func TestExitCodesOfPodsThatAreGone(t *testing.T) {
	for want, codes := range map[string][]history.ExitCode{
		"":                        {{Code: 0, Count: 1}},
		"exit code 3":             {{Code: 0, Count: 2}, {Code: 3, Count: 1}},
		"exit codes 3, 137 and 1": {{Code: 3, Count: 4}, {Code: 137, Count: 2}, {Code: 1, Count: 1}},
	} {
		j := newJob(func(j *batchv1.Job) {
			j.Status.Failed = 1
			j.Status.Conditions = ends(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
		})
		said := Job(World{Now: now, Source: why.FromRecords, ExitCodes: func(*batchv1.Job) []history.ExitCode { return codes }}, j, nil)
		c := why.Find(said.Causes, "PodsGone")
		if c == nil || want != "" && !strings.Contains(c.Message, "1 pod failed with "+want) || said.Reason != want {
			t.Errorf("%v: %q, %+v", codes, said.Reason, c)
		}
	}
}

// TestLastLinesOfAPodThatIsGone: with restartPolicy OnFailure the pod goes with its Job, and what it has printed is all that says why.
func TestLastLinesOfAPodThatIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		failed, succeeded int32
		kept              []string
		want              string
	}{
		"its log is kept":             {1, 0, []string{"no such table"}, "What it has printed is kept."},
		"its log is not kept":         {1, 0, nil, "What it has printed may still be there."},
		"the log is of several":       {2, 0, []string{"whose?"}, "What they have printed may still be there."},
		"the log may be of another's": {1, 1, []string{"whose?"}, "What it has printed may still be there."},
	} {
		j := newJob(func(j *batchv1.Job) {
			j.Status.Failed, j.Status.Succeeded = tc.failed, tc.succeeded
			j.Status.Conditions = ends(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
		})
		said := Job(World{Now: now, Source: why.FromRecords, JobLog: func(*batchv1.Job) []string { return tc.kept }}, j, nil)
		if said.Reason != "" {
			t.Errorf("%s: the reason is %q, and no exit code is known", name, said.Reason)
		}
		c := why.Find(said.Causes, "PodsGone")
		if c == nil || !strings.Contains(c.Message, tc.want) || (len(c.Log) > 0) != strings.HasSuffix(tc.want, "is kept.") {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
