package main

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/why"
)

// What a cluster's API shows of a Job: no request says why, so the client puts it together.
func TestWhyOfACluster(t *testing.T) {
	now := time.Now()
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "pi", UID: "j",
			Annotations: map[string]string{"jobd.dev/backoff-base": "5h"}, // no cluster heeds it
		},
		Spec: batchv1.JobSpec{
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"job-name": "pi"}},
			BackoffLimit: ptr.To[int32](3), Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2),
		},
		Status: batchv1.JobStatus{Active: 1, Failed: 1, StartTime: &metav1.Time{Time: now.Add(-time.Minute)}},
	}
	pod := func(name string, status corev1.PodStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: name, UID: "u-" + "x", Labels: j.Spec.Selector.MatchLabels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
			},
			Spec:   corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			Status: status,
		}
	}
	objects := []runtime.Object{
		j,
		pod("pi-waits", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient cpu",
		}}}),
		pod("pi-failed", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 127, Reason: "Error", FinishedAt: metav1.NewTime(now.Add(-3 * time.Second)),
			}},
		}}}),
	}
	said, err := explainFromAPI(t.Context(), fake.NewClientset(objects...), j)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Unschedulable", "ExitCode", "BackOff", "FailuresLeft"} {
		if why.Find(said.Causes, kind) == nil {
			t.Errorf("no cause %s", kind)
		}
	}
	if c := why.Find(said.Causes, "BackOff"); c != nil && c.Details["delay"] != "10s" {
		t.Errorf("the back-off of a cluster is %s", c.Details["delay"])
	}
	var out strings.Builder
	if err := why.Print(&out, said); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"3 Insufficient cpu", "exit code 127", "it survives 2 more", "This is based on the cluster's API alone"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), words) {
			t.Errorf("%q is not in\n%s", words, &out)
		}
	}
}

// TestWhyOfAJobThatIsGone: the history has it.
func TestWhyOfAJobThatIsGone(t *testing.T) {
	said := whatHistoryHas(&history.Job{
		Namespace: "ns", Name: "pi", Ended: metav1.Unix(1_800_000_000, 0), Result: history.Failed, Reason: "BackoffLimitExceeded",
		ExitCodes: []history.ExitCode{{Code: 3, Count: 2}, {Code: 137, Count: 1}},
	})
	if want := "The history has one of this name, which ended at 2027-01-15T08:00:00Z: Failed (BackoffLimitExceeded), exit codes of its pods: " +
		"3 (2x), 137 (1x). All that is left of it: jobctl report jobs/pi -n ns >job.html"; said != want {
		t.Errorf("%q", said)
	}
}
