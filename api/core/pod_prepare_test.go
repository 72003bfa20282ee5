package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestGraceOfADeletion(t *testing.T) {
	running := corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: ptr.To(int64(30))}}
	with := func(change func(*corev1.Pod)) corev1.Pod { p := *running.DeepCopy(); change(&p); return p }
	for _, tc := range []struct {
		name  string
		pod   corev1.Pod
		asked *int64
		want  int64
	}{
		{"the pod's own", running, nil, 30},
		{"the request's", running, ptr.To(int64(5)), 5},
		{"a negative one is a second", running, ptr.To(int64(-1)), 1},
		{"none for a pod that never had a node", with(func(p *corev1.Pod) { p.Spec.NodeName = "" }), nil, 0},
		{"none for a pod that has ended", with(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), ptr.To(int64(5)), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			options := &metav1.DeleteOptions{GracePeriodSeconds: tc.asked}
			if !podGrace(&tc.pod, options) || *options.GracePeriodSeconds != tc.want {
				t.Errorf("%d, want %d", *options.GracePeriodSeconds, tc.want)
			}
		})
	}
}

func TestUpdatesKeepWhatIsNotTheirs(t *testing.T) {
	old := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Generation: 3, OwnerReferences: []metav1.OwnerReference{{Name: "job"}}},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable},
	}
	spec := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", ActiveDeadlineSeconds: ptr.To(int64(1))}}
	preparePodUpdate(spec, old)
	if spec.Status.Phase != corev1.PodRunning || spec.Generation != 4 || len(spec.Spec.Tolerations) != 2 {
		t.Errorf("an update of the object: phase %q, generation %d, tolerations %v", spec.Status.Phase, spec.Generation, spec.Spec.Tolerations)
	}
	status := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}
	preparePodStatusUpdate(status, old)
	if status.Spec.NodeName != "n" || status.Generation != 3 || len(status.OwnerReferences) != 1 || status.Status.QOSClass != corev1.PodQOSBurstable {
		t.Errorf("an update of the status: %+v", status)
	}
}
