package server

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/admit"
)

func TestNamespaces(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	namespaces := c.CoreV1().Namespaces()
	named := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	t.Run("those of every cluster are there, and stay", func(t *testing.T) {
		for _, name := range admit.PermanentNamespaces {
			ns, err := namespaces.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || ns.Status.Phase != corev1.NamespaceActive || ns.Labels[corev1.LabelMetadataName] != name {
				t.Errorf("%v: %v", ns, err)
			}
			if err := namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("delete %s: %v", name, err)
			}
		}
	})
	t.Run("one that is deleted takes nothing new, and waits for the loop, which empties it", func(t *testing.T) {
		mustMake(t, namespaces, named("full"))
		if err := namespaces.Delete(t.Context(), "full", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		ns, err := namespaces.Get(t.Context(), "full", metav1.GetOptions{})
		if err != nil || ns.Status.Phase != corev1.NamespaceTerminating {
			t.Fatalf("%v: %v", ns, err)
		}
		_, err = c.BatchV1().Jobs("full").Create(t.Context(), newJob("b"), metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) ||
			!strings.Contains(err.Error(), "unable to create new content in namespace full because it is being terminated") {
			t.Errorf("a new Job: %v", err)
		}
		ns.Spec.Finalizers = nil
		if _, err := namespaces.Finalize(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := namespaces.Get(t.Context(), "full", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after its last finalizer: %v", err)
		}
	})
}
