package admit

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
)

func TestManualSelectorIsReadFromAStoredJob(t *testing.T) {
	for _, manual := range []*bool{nil, ptr.To(false), ptr.To(true)} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Annotations: map[string]string{"a": "*\x00\x01"}}}
		job.Spec.ManualSelector, job.Spec.BackoffLimit = manual, ptr.To[int32](1)
		job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		job.Status.Ready = ptr.To[int32](1)
		value, err := scheme.Encode(job)
		if err != nil {
			t.Fatal(err)
		}
		if got := manualSelector(value); got != ptr.Deref(manual, false) {
			t.Errorf("%v is read from one with %v", got, manual)
		}
	}
	if manualSelector([]byte{0xff}) || manualSelector(nil) {
		t.Error("what is no Job has a selector")
	}
}
