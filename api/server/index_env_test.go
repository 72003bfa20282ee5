package server

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

// Whoever creates a Job whose indexes have values is told of those that are missing, or may change.
func TestWarningsOfIndexValues(t *testing.T) {
	t.Parallel()
	ts := startServer(t)
	client, warned := ts.warned(t)
	for _, c := range []struct {
		name      string
		values    map[string]string // nil: there is no ConfigMap
		immutable bool
		suspend   bool
		want      []string
	}{
		{name: "whole", values: map[string]string{"0.lr": "1", "1.lr": "2"}, immutable: true},
		{name: "none", want: []string{`there is no ConfigMap "none" yet: no container starts until there is`}},
		{name: "follows", suspend: true},
		{name: "part", values: map[string]string{"0.lr": "1", "lr": "3"}, immutable: true, want: []string{`ConfigMap "part" has no key "1.lr"`}},
		{name: "mutable", values: map[string]string{"0.lr": "1", "1.lr": "2"}, want: []string{`ConfigMap "mutable" is not immutable`}},
	} {
		if c.values != nil {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Data: c.values, Immutable: &c.immutable}
			if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		job := newJob(c.name)
		job.Annotations = map[string]string{batch.IndexEnvAnnotation: c.name}
		job.Spec.Suspend = &c.suspend
		job.Spec.CompletionMode, job.Spec.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To[int32](2)
		job.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LR", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: c.name}, Key: "lr"},
		}}}
		warned.take()
		_, err := client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{})
		said := warned.take()
		if err != nil || len(c.want) == 0 && said != "" {
			t.Errorf("%s: %v, %q", c.name, err, said)
		}
		for _, words := range c.want {
			if !strings.Contains(said, "metadata.annotations[jobd.dev/index-env]: ") || !strings.Contains(said, words) {
				t.Errorf("%s: %q, want %q", c.name, said, words)
			}
		}
	}
}
