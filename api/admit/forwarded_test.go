package admit

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// ofNoCluster are requests as they come where no Job is for a cluster.
func ofNoCluster() map[string]admission.Attributes {
	at := func(o, was runtime.Object, op admission.Operation) admission.Attributes {
		return admission.NewAttributesRecord(o, was, schema.GroupVersionKind{}, "default", "j", schema.GroupVersionResource{}, "", op, nil, false, nil)
	}
	p := corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "c"}}}
	j := &batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: p}}}
	return map[string]admission.Attributes{
		"a new Job": at(j, nil, admission.Create), "a changed Job": at(j, j, admission.Update), "a deleted Job": at(nil, j, admission.Delete),
		"a new pod": at(&corev1.Pod{Spec: p}, nil, admission.Create), "a changed pod": at(&corev1.Pod{Spec: p}, &corev1.Pod{Spec: p}, admission.Update),
	}
}

// Who has no clusters pays nothing for those that others have, and the store is not asked.
func TestWithoutClustersAdmissionAllocatesNothing(t *testing.T) {
	for name, a := range ofNoCluster() {
		for what, of := range map[string]admission.ValidationInterface{"Forwarded": Forwarded{}, "Shown": Shown{}} {
			if !of.Handles(a.GetOperation()) {
				continue
			}
			if n := testing.AllocsPerRun(100, func() {
				if err := of.Validate(t.Context(), a, nil); err != nil {
					t.Error(err)
				}
			}); n > 0 {
				t.Errorf("%s, %s: %v allocations", what, name, n)
			}
		}
	}
}

func BenchmarkWithoutClusters(b *testing.B) {
	for name, a := range ofNoCluster() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, of := range []admission.ValidationInterface{Forwarded{}, Shown{}} {
					if of.Handles(a.GetOperation()) {
						_ = of.Validate(b.Context(), a, nil)
					}
				}
			}
		})
	}
}
