package server

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/runas"
)

// TestUsersOfTheMachinePutNothingFirst: in the namespace of a user of the machine only an administrator puts a Job before those of others.
func TestUsersOfTheMachinePutNothingFirst(t *testing.T) {
	ts := startServer(t)
	admin := ts.client(t)
	for name, annotations := range map[string]map[string]string{
		"alice": {runas.UserAnnotation: "alice", runas.Annotation: "1000:1000"}, "common": nil,
	} {
		mustMake(t, admin.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}})
		ts.role(t, name, "jobs", rule("get,create,patch", "batch", "jobs,cronjobs"))
		ts.grant(t, name, "Role/jobs", "User/alice")
	}
	alice := ts.person(t, "alice")
	first := map[string]string{batch.PrioritizedAnnotation: "2026-01-01T00:00:00Z"}
	create := func(c *kubernetes.Clientset, namespace, name string, annotations map[string]string) error {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{RestartPolicy: "Never", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}}}
		_, err := c.BatchV1().Jobs(namespace).Create(t.Context(), j, metav1.CreateOptions{})
		return err
	}
	cron := func(namespace string) error {
		c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *"}}
		c.Spec.JobTemplate.Annotations = first
		c.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: "Never", Containers: []corev1.Container{{Name: "c", Image: "c"}}}
		_, err := alice.BatchV1().CronJobs(namespace).Create(t.Context(), c, metav1.CreateOptions{})
		return err
	}
	patch := func(c *kubernetes.Clientset, namespace, text string) error {
		_, err := c.BatchV1().Jobs(namespace).Patch(t.Context(), "j", types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	const prioritize = `{"metadata": {"annotations": {"jobd.dev/prioritized-at": "2026-01-02T00:00:00Z"}}}`
	for _, c := range []struct {
		what    string
		do      func() error
		refused string
	}{
		{"a Job in a common namespace", func() error { return create(alice, "common", "j", first) }, ""},
		{"a change there", func() error { return patch(alice, "common", prioritize) }, ""},
		{"a Job", func() error { return create(alice, "alice", "x", first) }, "metadata.annotations[jobd.dev/prioritized-at]"},
		{"a CronJob's Jobs", func() error { return cron("alice") }, "spec.jobTemplate.metadata.annotations[jobd.dev/prioritized-at]"},
		{"a Job that waits", func() error { return create(alice, "alice", "j", nil) }, ""},
		{"a change", func() error { return patch(alice, "alice", prioritize) }, "metadata.annotations[jobd.dev/prioritized-at]"},
		{"the administrator's change", func() error { return patch(admin, "alice", prioritize) }, ""},
		{"another change", func() error { return patch(alice, "alice", `{"metadata": {"labels": {"a": "b"}}}`) }, ""},
		{"what takes it away", func() error { return patch(alice, "alice", `{"metadata": {"annotations": null}}`) }, ""},
	} {
		err := c.do()
		if c.refused == "" && err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v, want a refusal of %s", c.what, err, c.refused)
		}
	}
}
