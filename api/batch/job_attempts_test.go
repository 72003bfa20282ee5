package batch

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// What a client writes does not change the history.
func TestAttemptsAreKept(t *testing.T) {
	forged := map[string]string{AttemptsAnnotation: `[{"attempt":7}]`, "a": "b"}
	job := minimalJob(t, "j", "")
	job.Annotations = forged
	if create(job, "u1"); AttemptOf(job.Annotations) != 1 {
		t.Error("a new Job has had attempts")
	}
	old := job.DeepCopy()
	old.Annotations = map[string]string{AttemptsAnnotation: `[{"attempt":1}]`}
	for name, prepare := range map[string]func(job, old *batchv1.Job){"spec": prepareJobUpdate, "status": prepareJobStatusUpdate} {
		for _, annotations := range []map[string]string{nil, {AttemptsAnnotation: "x"}} {
			changed := old.DeepCopy()
			changed.Annotations = annotations
			if prepare(changed, old); AttemptOf(changed.Annotations) != 2 {
				t.Errorf("%s: %v", name, changed.Annotations)
			}
		}
	}
}
