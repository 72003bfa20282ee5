package picture_test

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/daemon/picture"
)

// A Job of four indexes is drawn, and then what has changed.
func ExampleRoll() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pi", UID: "1"},
		Spec:       batchv1.JobSpec{CompletionMode: ptr.To(batchv1.IndexedCompletion), Completions: ptr.To[int32](4)},
		Status:     batchv1.JobStatus{StartTime: &metav1.Time{Time: now}},
	}
	minute := now.Add(time.Minute)
	ended := func(index string) *history.Pod {
		started, end, code := metav1.NewTime(now), metav1.NewTime(minute), 0
		return &history.Pod{
			Name: "pi-" + index + "-abcde", Index: index, Started: &started, Ended: end, Result: history.PodSucceeded, ExitCode: &code,
		}
	}
	done := picture.NewEnded("pi", true)
	done.Add(ended("0"))
	j.Status.CompletedIndexes, j.Status.Succeeded = "0", 1
	running := []picture.Running{{Name: "pi-1-abcde", Index: 1, Since: now.Unix()}}
	var roll picture.Roll
	first, _ := roll.Show(picture.Draw(picture.Subject{Job: j}, done, running, minute))
	fmt.Println(first, roll.Whole().Cells.States)

	done.Add(ended("1"))
	j.Status.CompletedIndexes, j.Status.Succeeded = "0,1", 2
	second, _ := roll.Show(picture.Draw(picture.Subject{Job: j}, done, nil, minute))
	delta, ok := roll.Since(first)
	fmt.Println(second, roll.Whole().Cells.States, ok, delta.Delta)
	// Output:
	// 1 srw2
	// 2 s2w2 true true
}
