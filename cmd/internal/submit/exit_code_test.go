package submit

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ended is a Job that has ended.
func ended(kind batchv1.JobConditionType, reason string) *batchv1.Job {
	return &batchv1.Job{Status: batchv1.JobStatus{
		Conditions: []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason}},
	}}
}

// exited is a container that ended so many seconds after the start of the test's time.
func exited(name string, code int32, second int) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, FinishedAt: metav1.NewTime(time.Unix(int64(1000+second), 0)),
	}}}
}

func failedPod(name string, containers ...corev1.ContainerStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Status:     corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: containers},
	}
}

func TestResult(t *testing.T) {
	ignore := func(j *batchv1.Job, codes ...int32) *batchv1.Job {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{Action: batchv1.PodFailurePolicyActionIgnore, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes,
			}},
			{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
			}},
		}}
		return j
	}
	disrupted := failedPod("a", exited("c", 137, 0))
	disrupted.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	late := failedPod("a", exited("c", 137, 0))
	late.Status.Reason = "DeadlineExceeded"
	always := corev1.ContainerRestartPolicyAlways
	withSidecar := failedPod("a", exited("c", 3, 5))
	withSidecar.Spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: &always}}
	withSidecar.Status.InitContainerStatuses = []corev1.ContainerStatus{exited("side", 9, 1)}
	withInit := failedPod("a")
	withInit.Status.InitContainerStatuses = []corev1.ContainerStatus{exited("init", 8, 1)}
	restarted := failedPod("a", corev1.ContainerStatus{
		Name: "c", RestartCount: 1, LastTerminationState: exited("c", 6, 0).State,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	})
	restarted.Status.Phase, restarted.Spec.RestartPolicy = corev1.PodRunning, corev1.RestartPolicyOnFailure

	neverStarted := failedPod("a", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"},
	}})

	stopped := failedPod("a", exited("c", 137, 2))
	stopped.DeletionTimestamp = &metav1.Time{Time: time.Unix(1002, 0)}

	failed := batchv1.JobFailed
	for rule, c := range map[string]struct {
		job  *batchv1.Job
		pods []*corev1.Pod
		want int32
		pod  string
	}{
		"a container that never started was not the first to fail": {
			ended(failed, ""), []*corev1.Pod{neverStarted, failedPod("b", exited("c", 7, 1))}, 7, "b",
		},
		"in whichever order they are seen": {ended(failed, ""), []*corev1.Pod{failedPod("b", exited("c", 7, 1)), neverStarted}, 7, "b"},
		"unless none else failed":          {ended(failed, ""), []*corev1.Pod{neverStarted}, 137, "a"},
		"a Job that is complete is 0, whatever failed before": {
			ended(batchv1.JobComplete, ""), []*corev1.Pod{failedPod("a", exited("c", 3, 0))}, 0, "",
		},
		"a failed Job has the code of the pod that failed": {
			ended(failed, "BackoffLimitExceeded"), []*corev1.Pod{failedPod("a", exited("c", 3, 0))}, 3, "a",
		},
		"of several pods the first counts": {
			ended(failed, "BackoffLimitExceeded"),
			[]*corev1.Pod{failedPod("b", exited("c", 4, 7)), failedPod("a", exited("c", 3, 2))}, 3, "a",
		},
		"of the same second, the one that was seen first": {
			ended(failed, "BackoffLimitExceeded"),
			[]*corev1.Pod{failedPod("b", exited("c", 4, 2)), failedPod("a", exited("c", 3, 2))}, 4, "b",
		},
		"and not one that was ended then, as others are by the Job": {
			ended(failed, "BackoffLimitExceeded"), []*corev1.Pod{stopped, failedPod("b", exited("c", 4, 2))}, 4, "b",
		},
		"though it may be what came first": {
			ended(failed, "BackoffLimitExceeded"), []*corev1.Pod{stopped, failedPod("b", exited("c", 4, 3))}, 137, "a",
		},
		"of several containers the first that failed counts": {
			ended(failed, "BackoffLimitExceeded"),
			[]*corev1.Pod{failedPod("a", exited("x", 137, 9), exited("y", 3, 2), exited("z", 0, 1))}, 3, "a",
		},
		"a sidecar counts after the others": {ended(failed, ""), []*corev1.Pod{withSidecar}, 3, "a"},
		"an init container is a container":  {ended(failed, ""), []*corev1.Pod{withInit}, 8, "a"},
		"a restart in the pod is a failure": {ended(failed, ""), []*corev1.Pod{restarted}, 6, "a"},
		"a pod that the policy ignores does not count": {
			ignore(ended(failed, "BackoffLimitExceeded"), 42),
			[]*corev1.Pod{failedPod("a", exited("c", 42, 0)), failedPod("b", exited("c", 3, 5))}, 3, "b",
		},
		"nor does one whose condition it ignores": {
			ignore(ended(failed, "BackoffLimitExceeded"), 42),
			[]*corev1.Pod{disrupted, failedPod("b", exited("c", 3, 5))}, 3, "b",
		},
		"the Job's deadline is 124": {
			ended(failed, "DeadlineExceeded"), []*corev1.Pod{failedPod("a", exited("c", 137, 0))}, ExitDeadline, "",
		},
		"a pod's deadline is 124":         {ended(failed, "BackoffLimitExceeded"), []*corev1.Pod{late}, ExitDeadline, "a"},
		"a pod without containers is 1":   {ended(failed, "BackoffLimitExceeded"), []*corev1.Pod{failedPod("a")}, ExitFailed, "a"},
		"a Job without pods is 1":         {ended(failed, "BackoffLimitExceeded"), nil, ExitFailed, ""},
		"a Job that has not ended is 125": {&batchv1.Job{}, nil, ExitCannot, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			f := newFailures(c.job)
			for _, p := range c.pods {
				f.see(p)
				f.see(p) // a state may be seen twice
			}
			if got := f.result(c.job); got.Code != c.want || got.Pod != c.pod {
				t.Errorf("got %+v, want %d of %q", got, c.want, c.pod)
			}
		})
	}
}

func TestEveryExitCodeIsTheCommands(t *testing.T) {
	for code := int32(1); code < 256; code++ {
		f := newFailures(ended(batchv1.JobFailed, "BackoffLimitExceeded"))
		f.see(failedPod("a", exited("c", code, 0)))
		if got := f.result(f.job).Code; got != code {
			t.Errorf("got %d, want %d", got, code)
		}
	}
}
