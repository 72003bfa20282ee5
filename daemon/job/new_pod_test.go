package job

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
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

func TestVariablesHaveTheValuesOfTheIndex(t *testing.T) {
	from := func(configMap, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, Key: key,
		}}}
	}
	job := newJob(func(s *batchv1.JobSpec) {
		s.Template.Spec.InitContainers = []corev1.Container{{Name: "init", Env: []corev1.EnvVar{from("values", "lr")}}}
		s.Template.Spec.Containers = []corev1.Container{{Name: "main", Env: []corev1.EnvVar{from("values", "lr"), from("others", "lr")}}}
	})
	keys := func(pod *corev1.Pod) (all []string) {
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			for _, e := range c.Env {
				if e.Name == "A" {
					all = append(all, e.ValueFrom.ConfigMapKeyRef.Key)
				}
			}
		}
		return all
	}
	if got := keys(NewPodFor(job, NewPod{Index: 12}, "abcde")); !slices.Equal(got, []string{"lr", "lr", "lr"}) {
		t.Errorf("without the annotation: %v", got)
	}
	job.Annotations = map[string]string{batch.IndexEnvAnnotation: "values"}
	before := job.DeepCopy()
	pod := NewPodFor(job, NewPod{Index: 12}, "abcde")
	if got := keys(pod); !slices.Equal(got, []string{"12.lr", "12.lr", "lr"}) {
		t.Errorf("%v", got)
	}
	data := map[string]string{"12.lr": "0.1", "lr": "1", "2.lr": "2"}
	if got := batch.PodIndexValues(pod, data); !slices.Equal(got, []batch.IndexValue{{Name: "lr", Value: "0.1"}}) {
		t.Errorf("its values are %v", got)
	}
	if diff := cmp.Diff(before, job); diff != "" {
		t.Errorf("the template was changed:\n%s", diff)
	}
}

// The pod of an array knows which of its tasks it is.
func TestTaskOfAPod(t *testing.T) {
	job := newJob(func(*batchv1.JobSpec) {})
	job.Annotations = map[string]string{batch.ArrayAnnotation: "7,1-9:4"}
	pod := NewPodFor(job, NewPod{Index: 2}, "abcde")
	if got := batch.IndexWords(batch.PodIndexValues(pod, nil)); got != "task=5" {
		t.Errorf("its values are %s", got)
	}
	job.Annotations = nil
	if _, ok := NewPodFor(job, NewPod{Index: 2}, "abcde").Annotations[batch.ArrayAnnotation]; ok {
		t.Error("a pod of another Job has a task")
	}
}

// What concerns a Job's pods is annotated to each of them.
func TestAnnotationsOfAJobAndItsPods(t *testing.T) {
	job := newJob(nil)
	const scheduled, keep = batchv1.CronJobScheduledTimestampAnnotation, batch.KeepLogsAnnotation
	for _, tc := range []struct{ of, want map[string]string }{
		{nil, nil},
		{map[string]string{keep: "true"}, map[string]string{keep: "true"}},
		{map[string]string{keep: "false"}, nil},
		{map[string]string{scheduled: "2026-11-20T00:00:00Z"}, map[string]string{scheduled: "2026-11-20T00:00:00Z"}},
		{map[string]string{scheduled: "at midnight"}, nil},
		{map[string]string{batch.AttemptsAnnotation: "x", "example.com/other": "y"}, nil},
	} {
		job.Annotations = tc.of
		if got := NewPodFor(job, NewPod{Index: -1}, "abcde").Annotations; len(got)+len(tc.want) > 0 && !maps.Equal(got, tc.want) {
			t.Errorf("%v: %v, want %v", tc.of, got, tc.want)
		}
	}
}
