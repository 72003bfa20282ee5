package server

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFinalizersHaveNamesOfTheirOwn(t *testing.T) {
	ts := startServer(t)
	cms := ts.client(t).CoreV1().ConfigMaps("default")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Finalizers: []string{"mine"}}}
	if _, err := cms.Create(t.Context(), cm, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("mine: %v", err)
	}
	cm.Finalizers = []string{"example.com/mine", metav1.FinalizerDeleteDependents}
	made := mustMake(t, cms, cm)
	made.Finalizers = append(made.Finalizers, "yours")
	if _, err := cms.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("yours: %v", err)
	}
}
