package job_test

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/job"
)

// A Job of two indexes gets a pod for each. Nothing happens before somebody carries the decision out.
func ExampleDecide() {
	stored := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pi", UID: "1"},
		Spec: batchv1.JobSpec{
			CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Completions:    ptr.To[int32](2), Parallelism: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"job-name": "pi"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}},
		},
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	record := job.NewRecord(stored, nil)
	decision := job.Decide(record, now, job.Settings{})
	for _, pod := range decision.Create {
		fmt.Println("create a pod for index", pod.Index)
	}
	for _, status := range decision.Status {
		fmt.Println("write: active", status.Active, "since", status.StartTime.UTC().Format(time.TimeOnly))
	}
	again := job.Decide(record, now, job.Settings{})
	fmt.Println("the same again:", len(again.Create) == len(decision.Create))
	// Output:
	// create a pod for index 0
	// create a pod for index 1
	// write: active 2 since 00:00:00
	// the same again: true
}

// Index lists are sets, written as clusters write them.
func ExampleParseIndexes() {
	set := job.ParseIndexes("0,2-4", 10)
	set.Add(1)
	set.Add(7)
	fmt.Println(set, set.Len(), set.Has(5))
	// Output: 0-4,7 6 false
}
