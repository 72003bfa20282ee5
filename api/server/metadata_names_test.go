package server

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
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

// The names of owners become parts of keys, and are kept: one that no object can have is refused.
func TestNamesOfOwnersHaveAnEnd(t *testing.T) {
	ts := startServer(t)
	cms := ts.client(t).CoreV1().ConfigMaps("default")
	long := strings.Repeat("a", 254)
	owner := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "CronJob", Name: long[1:], UID: "u"}
	for what, change := range map[string]func(*metav1.OwnerReference){
		"name":       func(o *metav1.OwnerReference) { o.Name = long },
		"kind":       func(o *metav1.OwnerReference) { o.Kind = long },
		"apiVersion": func(o *metav1.OwnerReference) { o.APIVersion = long + "/" + long },
	} {
		bad := owner
		change(&bad)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bad", OwnerReferences: []metav1.OwnerReference{bad}}}
		if _, err := cms.Create(t.Context(), cm, metav1.CreateOptions{}); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), "metadata.ownerReferences[0]."+what) {
			t.Errorf("%s: %.300v", what, err)
		}
	}
	made := mustMake(t, cms, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", OwnerReferences: []metav1.OwnerReference{owner}}})
	made.OwnerReferences[0].Name = long
	if _, err := cms.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an update: %.300v", err)
	}
}

// A time whose year is 10000 could be written and never be read again, neither here nor where it is copied to.
func TestTimesThatCannotBeReadAgain(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	job := newJob("j")
	job.Spec.ManagedBy = ptr.To("example.com/x")
	made := mustMake(t, jobs, job)
	late := `{"status": {"conditions": [{"type": "FailureTarget", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59-05:00"}]}}`
	_, err := jobs.Patch(t.Context(), made.Name, types.MergePatchType, []byte(late), metav1.PatchOptions{}, "status")
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "status.conditions[0].lastTransitionTime") {
		t.Errorf("%v", err)
	}
}
