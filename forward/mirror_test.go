package forward

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// A pod that cannot be shown, since another has its name here, keeps none of the others from being shown before their Job ends.
func TestOnePodThatCannotBeShown(t *testing.T) {
	l := here(made)
	r := there(l, ended)
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, UID: "there", Labels: map[string]string{batchv1.ControllerUidLabel: string(r.UID)},
			},
			Status: corev1.PodStatus{Phase: corev1.PodFailed},
		}
	}
	f := cluster(l, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
	f.remote, f.logs = fake.NewClientset(pod("a"), pod("b")), newLogging()
	if err := f.settlePods(t.Context(), l, r, true); err == nil {
		t.Error("nothing is said of the one that is not shown")
	}
	b, err := f.local.CoreV1().Pods("default").Get(t.Context(), "b", metav1.GetOptions{})
	if err != nil || b.Status.Phase != corev1.PodFailed {
		t.Errorf("the other one: %v, %v", b, err)
	}
}
