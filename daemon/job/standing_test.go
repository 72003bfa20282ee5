package job

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

// TestStanding: what is said of the next decisions is when they come.
func TestStanding(t *testing.T) {
	second := someTime.Truncate(time.Second)
	at := func(d time.Duration) time.Time { return time.Unix(second.Add(d).Unix(), 0) }
	same := func(t *testing.T, w *world, want Standing) {
		t.Helper()
		if got := w.record.Standing(w.settings); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	}
	t.Run("a Job that was just begun", func(t *testing.T) {
		same(t, begin(nil), Standing{Base: 10 * time.Second, Cap: 6 * time.Minute})
	})
	t.Run("after failures", func(t *testing.T) {
		w := begin(func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](600) })
		w.end(w.names()[0], 1)
		w.settle()
		w.pass(10 * time.Second)
		w.startAll()
		w.pass(5 * time.Second)
		w.end(w.names()[0], 1)
		w.settle()
		same(t, w, Standing{
			Failures: 2, LastFailure: at(15 * time.Second), Until: at(35 * time.Second), Delay: 20 * time.Second,
			Base: 10 * time.Second, Cap: 6 * time.Minute, Deadline: second.Add(10 * time.Minute), Failed: 2,
		})
	})
	t.Run("with a back-off of its own, and restarts in place", func(t *testing.T) {
		job := newJob(func(s *batchv1.JobSpec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure })
		job.Annotations = map[string]string{batch.BackoffBaseAnnotation: "1s", batch.BackoffCapAnnotation: "3s"}
		w := newWorld(someTime, job)
		w.settle()
		w.startAll()
		w.set(w.names()[0], func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 2}}
		})
		w.settle()
		same(t, w, Standing{Base: time.Second, Cap: 3 * time.Second, Restarts: 2})
	})
	t.Run("each index for itself", func(t *testing.T) {
		w := begin(func(s *batchv1.JobSpec) {
			perIndex(3, 3, 5)(s)
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
				onExit(batchv1.PodFailurePolicyActionIgnore, nil, batchv1.PodFailurePolicyOnExitCodesOpIn, 7),
			}}
		})
		w.endIndex(2, 1)
		w.pass(10 * time.Second)
		w.startAll()
		w.endIndex(2, 1)
		w.endIndex(0, 7)
		same(t, w, Standing{
			Base: 10 * time.Second, Cap: 6 * time.Minute, Failed: 2, // that of index 2 that is held, too
			Held: []HeldIndex{{0, 0, at(20 * time.Second)}, {2, 2, at(30 * time.Second)}},
		})
	})
	t.Run("after refused creations", func(t *testing.T) {
		w := newWorld(someTime, newJob(nil))
		w.refuse = 2
		w.settle()
		w.pass(time.Second)
		if st := w.record.Standing(w.settings); st.Refused != 2 || !st.RefusedUntil.Equal(w.now.Add(2*time.Second)) {
			t.Errorf("%+v", st)
		}
	})
}

func TestWhatTheRulesOfAFailurePolicySay(t *testing.T) {
	codes := func(container *string, op batchv1.PodFailurePolicyOnExitCodesOperator, values ...int32) batchv1.PodFailurePolicyRule {
		return onExit(batchv1.PodFailurePolicyActionFailJob, container, op, values...)
	}
	conditions := func(types ...corev1.PodConditionType) batchv1.PodFailurePolicyRule {
		r := batchv1.PodFailurePolicyRule{Action: batchv1.PodFailurePolicyActionIgnore}
		for _, c := range types {
			r.OnPodConditions = append(r.OnPodConditions, batchv1.PodFailurePolicyOnPodConditionsPattern{Type: c, Status: corev1.ConditionTrue})
		}
		return r
	}
	const in, notIn = batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: "Odd", Status: corev1.ConditionTrue}}
	for i, code := range []int32{3, 0, 5, 6} {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: string(rune('a' + i)), State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
		})
	}
	job := newJob(func(s *batchv1.JobSpec) {
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			codes(nil, in, 1, 2), codes(ptr.To("a"), notIn, 3, 4), codes(ptr.To("b"), in, 1), conditions("X"), conditions("X", "Y", "Z"),
			codes(ptr.To("c"), in, 5), conditions("Odd"),
		}}
	})
	want := []string{
		"exit code 3 of container a, 5 of container c or 6 of container d is not one of [1 2]",
		"exit code 3 of container a is one of [3 4], which it excludes",
		"container b did not fail with an exit code",
		"the pod has no condition X=True",
		"the pod has no condition X=True, Y=True or Z=True",
		"Container c for pod n/p failed with exit code 5",
		"Pod n/p has condition Odd",
	}
	got := JudgeFailure(job, pod)
	for i, r := range got {
		if r.Index != i || r.Reason != want[i] || r.Matched != (i == 5) || r.Reached != (i <= 5) || r.Action != job.Spec.PodFailurePolicy.Rules[i].Action {
			t.Errorf("rule %d: %+v, want %s", i, r, want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d rules, want %d", len(got), len(want))
	}
	pod.Status.ContainerStatuses = nil
	if r := JudgeFailure(job, pod)[0]; r.Reason != "no container failed with an exit code" {
		t.Errorf("%+v", r)
	}
	if got := JudgeFailure(newJob(nil), pod); got != nil {
		t.Errorf("without a policy: %v", got)
	}
}

func TestWhatTheRulesOfASuccessPolicySay(t *testing.T) {
	job := newJob(indexed(5, 5))
	if got := JudgeSuccess(job); got != nil {
		t.Errorf("without a policy: %v", got)
	}
	job.Status.CompletedIndexes = "0,2,3"
	job.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{
		{SucceededIndexes: ptr.To("0-2")}, {SucceededIndexes: ptr.To("1-4"), SucceededCount: ptr.To[int32](2)}, {SucceededCount: ptr.To[int32](1)},
	}}
	want := []RuleResult{
		{Index: 0, Reached: true, Reason: "2 of the indexes 0-2 have succeeded, and it needs 3"},
		{Index: 1, Reached: true, Matched: true, Reason: "2 of the indexes 1-4 have succeeded, and it needs 2"},
		{Index: 2, Reason: "3 of all indexes have succeeded, and it needs 1"},
	}
	if got := JudgeSuccess(job); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// TestMemoryOfPods: the pods that were counted tell of the back-off, where nothing else is stored.
func TestMemoryOfPods(t *testing.T) {
	job := newJob(func(s *batchv1.JobSpec) {
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
			},
		}}}
	})
	pod := func(at int64, phase corev1.PodPhase, change func(p *corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{}
		p.Status.Phase = phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Unix(at, 0)}},
		}}
		if change != nil {
			change(p)
		}
		return p
	}
	got := MemoryOf(job, []*corev1.Pod{
		pod(100, corev1.PodFailed, nil), pod(200, corev1.PodSucceeded, nil), pod(400, corev1.PodFailed, nil), pod(300, corev1.PodFailed, nil),
		pod(500, corev1.PodRunning, nil),
		pod(600, corev1.PodFailed, func(p *corev1.Pod) { p.Finalizers = []string{batchv1.JobTrackingFinalizer} }), // yet to be counted
		pod(700, corev1.PodFailed, func(p *corev1.Pod) { // ignored
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		}),
	})
	if want := (&Memory{LastSuccess: 200, Failures: []int64{300, 400}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestRunningPods(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) {
		indexed(4, 4)(s)
		s.PodReplacementPolicy = ptr.To(batchv1.Failed) // else one that is deleted has failed at once, and is none of the Job's any more
	})
	w.pass(time.Minute)
	names := w.names()
	w.set(names[1], func(p *corev1.Pod) { p.Status.Conditions = nil })
	w.deletePod(names[2])
	w.set(names[3], func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })
	var got []string
	for _, r := range w.record.Running() {
		got = append(got, fmt.Sprint(r.Index, r.Since == someTime.Unix(), r.Ready, r.Stopping))
	}
	slices.Sort(got)
	if want := []string{"0 true true false", "1 true false false", "2 true true true"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if w.record.Mode() != "Indexed" || begin(nil).record.Mode() != "NonIndexed" {
		t.Error(w.record.Mode())
	}
}
