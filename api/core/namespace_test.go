package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNamespaceIsBornActive(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a", ResourceVersion: "1"}, Status: corev1.NamespaceStatus{Phase: "x"}}
	setNamespaceDefaults(ns)
	PrepareNamespace(ns)
	if errs := validateNamespace(ns); len(errs) > 0 {
		t.Fatal(errs)
	}
	if ns.Status.Phase != corev1.NamespaceActive || ns.Labels[corev1.LabelMetadataName] != "team-a" ||
		!slices.Equal(ns.Spec.Finalizers, []corev1.FinalizerName{"kubernetes"}) {
		t.Errorf("%+v", ns)
	}
	if got := fmt.Sprint(namespaceTable().Cells(ns, time.Time{})); got != "[team-a Active <unknown>]" {
		t.Error(got)
	}
	if bad := (&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a.b"}}); len(validateNamespace(bad)) == 0 {
		t.Error("a name with a dot was accepted")
	}
}

func TestPartsOfANamespaceHaveWritesOfTheirOwn(t *testing.T) {
	old := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}}
	PrepareNamespace(old)
	change := func() *corev1.Namespace {
		ns := old.DeepCopy()
		ns.Spec.Finalizers = nil
		ns.Status.Phase = corev1.NamespaceTerminating
		return ns
	}
	ns := change()
	prepareNamespaceUpdate(ns, old)
	if len(ns.Spec.Finalizers) != 1 || ns.Status.Phase != corev1.NamespaceActive || len(validateNamespaceUpdate(ns, old)) > 0 {
		t.Errorf("a write of the object: %+v", ns)
	}
	ns = change()
	prepareNamespaceFinalize(ns, old)
	if len(ns.Spec.Finalizers) != 0 || ns.Status.Phase != corev1.NamespaceActive || len(validateNamespaceFinalize(ns, old)) > 0 {
		t.Errorf("a write of the finalizers: %+v", ns)
	}
	ns.Spec.Finalizers = []corev1.FinalizerName{"mine", "me.dev/mine"}
	if errs := validateNamespaceFinalize(ns, old); len(errs) != 1 || errs[0].Field != "spec.finalizers" {
		t.Errorf("finalizers: %v", errs)
	}
	ns = change()
	prepareNamespaceStatusUpdate(ns, old)
	if errs := validateNamespaceStatusUpdate(ns, old); len(ns.Spec.Finalizers) != 1 || len(errs) != 1 || errs[0].Field != "status.phase" {
		t.Errorf("a living namespace is said to terminate: %v", errs)
	}
	ns.DeletionTimestamp = &metav1.Time{Time: someTime}
	dying := old.DeepCopy()
	dying.DeletionTimestamp = ns.DeletionTimestamp
	if errs := validateNamespaceStatusUpdate(ns, dying); len(errs) > 0 {
		t.Error(errs)
	}
}
