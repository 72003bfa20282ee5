package job

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

func TestFinishTime(t *testing.T) {
	at := func(s int64) metav1.Time { return metav1.NewTime(time.Unix(s, 0)) }
	ended := func(name string, s int64) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(s)}}}
	}
	running := corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	unready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at(30)}}
	sidecar := []corev1.Container{{Name: "side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}, {Name: "init"}}
	deletion := at(70)
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want int64
	}{
		"the end of the last container": {corev1.Pod{Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{ended("a", 21), ended("b", 22)}, Conditions: unready}}, 22},
		"a sidecar's end counts": {corev1.Pod{Spec: corev1.PodSpec{InitContainers: sidecar}, Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{ended("a", 21)}, InitContainerStatuses: []corev1.ContainerStatus{ended("side", 25)}}}, 25},
		"an init container's does not": {corev1.Pod{Spec: corev1.PodSpec{InitContainers: sidecar}, Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{ended("a", 21)}, InitContainerStatuses: []corev1.ContainerStatus{ended("init", 26)}}}, 21},
		"when one still runs: when it ceased to be ready": {corev1.Pod{Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{ended("a", 21), running}, Conditions: unready}}, 30},
		"never ready: when its deletion was asked for": {corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deletion, DeletionGracePeriodSeconds: ptr.To[int64](30)},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running}}}, 40},
		"nothing is known: its creation": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(10)}}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			if got := finishTime(&c.pod).Unix(); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

func TestSummarize(t *testing.T) {
	failed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", UID: "u", CreationTimestamp: metav1.NewTime(time.Unix(10, 0)),
			Annotations: map[string]string{
				batchv1.JobCompletionIndexAnnotation:          "4",
				batchv1.JobIndexFailureCountAnnotation:        "2",
				batchv1.JobIndexIgnoredFailureCountAnnotation: "1",
			},
			OwnerReferences: []metav1.OwnerReference{{UID: "group"}, {UID: "job", Controller: ptr.To(true)}},
			Finalizers:      []string{"x", batchv1.JobTrackingFinalizer},
		},
		Spec: corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(time.Unix(12, 0))}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "a", RestartCount: 2, State: failed}, {Name: "b"}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "i", RestartCount: 1}},
		},
	}
	want := Pod{
		UID: "u", Name: "p", Controller: "job", Phase: corev1.PodRunning,
		Tracked: true, Assigned: true, Ready: true, Restarts: 3,
		Index: 4, Failures: 2, IgnoredFailures: 1,
		Created: 10, ReadySince: 12, Finished: 10,
		Exits: []batch.Exit{{Container: "a", Code: 3}}, Conditions: pod.Status.Conditions,
	}
	if diff := cmp.Diff(want, Summarize(pod)); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "-1", "x", "99999999999"} {
		pod.Annotations[batchv1.JobCompletionIndexAnnotation] = bad
		if i := Summarize(pod).Index; i != -1 {
			t.Errorf("%q is index %d", bad, i)
		}
	}
}
