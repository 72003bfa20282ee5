package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestARetryIsAdmitted: what a Job becomes by another attempt is decided about as what it becomes by an update.
func TestARetryIsAdmitted(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
	j.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "busybox"}}}
	j, err := jobs.Create(t.Context(), j, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	j.Status.StartTime = &now
	for _, c := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	if _, err := jobs.UpdateStatus(t.Context(), j, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	retry := func(image string) (int, string) {
		return ts.do(t, http.MethodPost, "/apis/batch/v1/namespaces/default/jobs/j/retry", "application/json", `{"containers": [{"image": "`+image+`"}]}`)
	}
	if code, text := retry("jobd.dev/host"); code != http.StatusForbidden || !strings.Contains(text, "runs commands of this machine") {
		t.Errorf("with the files of this machine: %d %s", code, text)
	}
	if code, text := retry("busybox:2"); code != http.StatusOK {
		t.Errorf("with another image: %d %s", code, text)
	}
}
