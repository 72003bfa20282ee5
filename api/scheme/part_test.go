package scheme_test

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/scheme"
)

func TestFieldsOf(t *testing.T) {
	got := scheme.FieldsOf[corev1.Pod]("metadata.deletionTimestamp", "metadata.finalizers", "spec.nodeName", "status")
	want := scheme.Fields{1: {9: nil, 14: nil}, 2: {10: nil}, 3: nil} // the numbers in generated.proto
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	defer func() {
		if r := recover(); r == nil {
			t.Error("a field that does not exist is found")
		}
	}()
	scheme.FieldsOf[corev1.Pod]("status.color")
}

func TestDecodePart(t *testing.T) {
	deletion := metav1.NewTime(time.Unix(1e9, 0))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", DeletionTimestamp: &deletion, Finalizers: []string{"a", "b"}},
		Spec:       corev1.PodSpec{NodeName: "here", Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodFailed, Reason: "why", Conditions: []corev1.PodCondition{{Type: "A"}, {Type: "B", Reason: "r"}}},
	}
	data, err := scheme.Encode(pod)
	if err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if err := scheme.DecodePart(data, scheme.FieldsOf[corev1.Pod](
		"metadata.deletionTimestamp", "metadata.finalizers", "spec.nodeName", "status.phase", "status.conditions",
	), got); err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deletion, Finalizers: []string{"a", "b"}},
		Spec:       corev1.PodSpec{NodeName: "here"},
		Status:     corev1.PodStatus{Phase: corev1.PodFailed, Conditions: pod.Status.Conditions},
	}
	if !reflect.DeepEqual(got.ObjectMeta.Finalizers, want.Finalizers) || !got.DeletionTimestamp.Equal(&deletion) || got.Name != "" ||
		got.Spec.NodeName != "here" || len(got.Spec.Containers) > 0 || got.Status.Phase != want.Status.Phase || got.Status.Reason != "" ||
		!reflect.DeepEqual(got.Status.Conditions, want.Status.Conditions) {
		t.Errorf("%+v", got)
	}
	for n := range len(data) {
		// Whatever is cut short is an error or a prefix of the fields, never a panic.
		_ = scheme.DecodePart(data[:n], scheme.FieldsOf[corev1.Pod]("metadata.deletionTimestamp", "status.conditions"), &corev1.Pod{})
	}
}
