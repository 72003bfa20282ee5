package core

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestPreemptByIsChecked(t *testing.T) {
	for value, want := range map[string]string{
		"pause": "", "evict": "", "": `Unsupported value: "": supported values: "evict", "pause"`, "Pause": "Unsupported value",
	} {
		err := ValidatePreemptBy(map[string]string{PreemptByAnnotation: value}, field.NewPath("metadata", "annotations")).ToAggregate()
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), PreemptByAnnotation)) {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
	if errs := ValidatePreemptBy(nil, nil); errs != nil {
		t.Error(errs)
	}
}

func TestDisplacedSince(t *testing.T) {
	at := metav1.NewTime(time.Unix(100, 0))
	for status, want := range map[corev1.ConditionStatus]bool{"": false, corev1.ConditionTrue: true, corev1.ConditionFalse: false} {
		p := &corev1.Pod{}
		if status != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: PodDisplaced, Status: status, LastTransitionTime: at}}
		}
		if since, is := DisplacedSince(p); is != want || is && !since.Equal(at.Time) {
			t.Errorf("%q: %s %v", status, since, is)
		}
	}
}
