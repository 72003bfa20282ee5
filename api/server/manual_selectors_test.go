package server

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/admit"
)

// TestManualSelectorsAreBounded has a namespace with as many Jobs that choose their pods themselves as it may have.
func TestManualSelectorsAreBounded(t *testing.T) {
	t.Parallel()
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	make := func(i int, manual bool) (*batchv1.Job, error) {
		job := newJob(fmt.Sprint("j", i))
		if manual {
			job.Spec.ManualSelector = ptr.To(true)
			job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"j": job.Name}}
			job.Spec.Template.Labels = job.Spec.Selector.MatchLabels
		}
		return jobs.Create(t.Context(), job, metav1.CreateOptions{})
	}
	for i := range admit.MaxManualSelectors {
		if _, err := make(i, true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := make(1000, true); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "100 Jobs with spec.manualSelector") {
		t.Errorf("one more: %v", err)
	}
	if _, err := make(1001, false); err != nil {
		t.Error(err)
	}
	if _, err := jobs.Patch(
		t.Context(), "j1001", types.MergePatchType, []byte(`{"spec":{"manualSelector":true}}`), metav1.PatchOptions{},
	); !apierrors.IsForbidden(err) {
		t.Errorf("one that was there: %v", err)
	}
	if _, err := jobs.Patch(t.Context(), "j0", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	first, err := jobs.Get(t.Context(), "j0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first.Status.StartTime = &first.CreationTimestamp
	for _, of := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		first.Status.Conditions = append(
			first.Status.Conditions,
			batchv1.JobCondition{Type: of, Status: corev1.ConditionTrue, LastTransitionTime: first.CreationTimestamp},
		)
	}
	if _, err := jobs.UpdateStatus(t.Context(), first, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := make(1002, true); err != nil {
		t.Errorf("after one has finished: %v", err)
	}
}
