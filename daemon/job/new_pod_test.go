package job

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestPodNamesFitIntoALabel(t *testing.T) {
	long := strings.Repeat("x", 63)
	for name, c := range map[string]struct {
		job   string
		index int32
		want  string
	}{
		"a Job's name and a suffix":           {"pi", -1, "pi-abcde"},
		"with the index":                      {"pi", 12, "pi-12-abcde"},
		"a long name is cut":                  {long, -1, long[:58] + "abcde"},
		"a long name is cut before the index": {long, 99999, long[:51] + "-99999-abcde"},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(nil)
			job.Name = c.job
			got := NewPodFor(job, NewPod{Index: c.index}, "abcde").Name
			if got != c.want || len(got) > 63 {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestPodsKnowTheirIndex(t *testing.T) {
	own := corev1.EnvVar{Name: completionIndexEnv, Value: "my own"}
	job := newJob(func(s *batchv1.JobSpec) {
		s.Template.Spec.InitContainers = []corev1.Container{{Name: "init"}}
		s.Template.Spec.Containers = []corev1.Container{
			{Name: "main", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}},
			{Name: "own", Env: []corev1.EnvVar{own}},
		}
	})
	before := job.DeepCopy()
	pod := NewPodFor(job, NewPod{Index: 7}, "abcde")
	if diff := cmp.Diff(before, job); diff != "" {
		t.Errorf("the template was changed:\n%s", diff)
	}
	from := corev1.EnvVar{Name: completionIndexEnv, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
		APIVersion: "v1", FieldPath: "metadata.labels['batch.kubernetes.io/job-completion-index']",
	}}}
	for name, c := range map[string]struct{ got, want []corev1.EnvVar }{
		"init": {pod.Spec.InitContainers[0].Env, []corev1.EnvVar{from}},
		"main": {pod.Spec.Containers[0].Env, []corev1.EnvVar{{Name: "A", Value: "1"}, from}},
		"own":  {pod.Spec.Containers[1].Env, []corev1.EnvVar{own}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	if pod.Spec.Hostname != "j-7" || pod.Labels[batchv1.JobCompletionIndexAnnotation] != "7" || pod.Annotations[batchv1.JobCompletionIndexAnnotation] != "7" {
		t.Errorf("hostname %s, labels %v, annotations %v", pod.Spec.Hostname, pod.Labels, pod.Annotations)
	}
	if plain := NewPodFor(job, NewPod{Index: -1}, "abcde"); plain.Spec.Hostname != "" || len(plain.Annotations) > 0 || len(plain.Spec.Containers[0].Env) != 1 {
		t.Errorf("a pod of a NonIndexed Job has an index: %v", plain)
	}
}
