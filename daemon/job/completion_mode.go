package job

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
)

// completionIndexEnv is the environment variable that holds the index in the containers of an Indexed Job.
const completionIndexEnv = "JOB_COMPLETION_INDEX"

// Mode returns the Job's completion mode, for metrics.
func (r *Record) Mode() string {
	if r.spec.indexed {
		return string(batchv1.IndexedCompletion)
	}
	return string(batchv1.NonIndexedCompletion)
}

// inRange reports whether a pod can count: a pod of an Indexed Job must have one of the Job's indexes.
func (r *Record) inRange(p *pod) bool {
	return !r.spec.indexed || p.index >= 0 && p.index < r.spec.completions
}

// setIndex sets a pod's completion index in all the places where clusters do.
func setIndex(pod *corev1.Pod, jobName string, index int32) {
	s := strconv.Itoa(int(index))
	put(&pod.Labels, batchv1.JobCompletionIndexAnnotation, s)
	put(&pod.Annotations, batchv1.JobCompletionIndexAnnotation, s)
	pod.Spec.Hostname = jobName + "-" + s
	for c := range podspec.Containers(&pod.Spec) {
		setIndexEnv(c)
	}
}

func setIndexEnv(c *corev1.Container) {
	for i := range c.Env {
		if c.Env[i].Name == completionIndexEnv {
			return
		}
	}
	c.Env = append(c.Env, corev1.EnvVar{
		Name: completionIndexEnv,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1",
			FieldPath:  "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']",
		}},
	})
}

func put(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}
