package server

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A submitter of one namespace makes no pod beside which nobody else's starts; one of all namespaces does.
func TestAPodThatKeepsOthersAway(t *testing.T) {
	ts := startServer(t)
	mustMake(t, ts.client(t).CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	alone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "alone"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "c"}},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{}},
		}}},
	}}
	create := func(role string) error {
		_, err := ts.limited(t, role).CoreV1().Pods("team").Create(t.Context(), alone, metav1.CreateOptions{})
		return err
	}
	if err := create("role=submit&namespace=team"); !apierrors.IsForbidden(err) {
		t.Errorf("of one namespace: %v", err)
	}
	if err := create("role=submit"); err != nil {
		t.Errorf("of all namespaces: %v", err)
	}
}
