package e2e

import (
	"context"
	_ "embed"
	"os"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

//go:embed docs_api_test.go
var docsAPI string

// TestDocsGo runs the Go code of docs/api.md, which stands below word for word.
func TestDocsGo(t *testing.T) {
	needContainers(t)
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(docsAPI, "\n// RunAJob")
	_, code, _ = strings.Cut(code, "\n")
	if !strings.Contains(string(page), "```go\n"+code+"```\n") {
		t.Error("docs/api.md does not show RunAJob as it is here")
	}
	t.Parallel()
	log, err := RunAJob(t.Context(), start(t).client())
	if err != nil || string(log) != "hello from Go\n" {
		t.Errorf("log %q, %v", log, err)
	}
}

// RunAJob runs a Job to its end and returns what its pods have printed.
func RunAJob(ctx context.Context, config *rest.Config) (log []byte, err error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	jobs, pods := clients.BatchV1().Jobs("default"), clients.CoreV1().Pods("default")
	job, err := jobs.Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "from-go"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "c", Image: "busybox:1.36", Command: []string{"echo", "hello from Go"}}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	changes, err := jobs.Watch(ctx, metav1.SingleObject(job.ObjectMeta))
	if err != nil {
		return nil, err
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		job, ok := change.Object.(*batchv1.Job)
		if ok && slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
		}) {
			break
		}
	}
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "job-name=from-go"})
	if err != nil {
		return nil, err
	}
	for _, pod := range list.Items {
		part, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			return nil, err
		}
		log = append(log, part...)
	}
	return log, nil
}
