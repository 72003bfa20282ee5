package scheme

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestStoredObjectComesBackAsItWas(t *testing.T) {
	for _, tc := range []struct {
		name      string
		obj, into runtime.Object
	}{
		{
			"job",
			&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "u", Generation: 3}, Status: batchv1.JobStatus{Failed: 2}},
			&batchv1.Job{},
		},
		{
			"pod",
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Finalizers: []string{"x/y"}}, Status: corev1.PodStatus{Phase: corev1.PodPending}},
			&corev1.Pod{},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data, err := runtime.Encode(StorageCodec, tc.obj)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := StorageCodec.Decode(data, nil, tc.into); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.obj, tc.into); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTornBytesAreAnError(t *testing.T) {
	data, err := Encode(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a-name"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := Decode(data[:len(data)-3], &batchv1.Job{}); err == nil {
		t.Error("half an object was decoded")
	}
}
