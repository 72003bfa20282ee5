package vm

import (
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// job is an Indexed Job whose pods run a shell script and note on the machine's disk that they were started.
func job(name string, completions, parallelism int32, script string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: &completions, Parallelism: &parallelism,
			CompletionMode: ptr.To(batchv1.IndexedCompletion),
			BackoffLimit:   ptr.To[int32](1000),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy:                 corev1.RestartPolicyNever,
				TerminationGracePeriodSeconds: ptr.To[int64](1),
				Containers: []corev1.Container{{
					Name: "c", Image: "busybox:1.36",
					Command: []string{"sh", "-c", "echo $UID >>/notes/starts; echo start\n" + script},
					Env: []corev1.EnvVar{{Name: "UID", ValueFrom: &corev1.EnvVarSource{
						FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}}},
					VolumeMounts: []corev1.VolumeMount{{Name: "notes", MountPath: "/notes"}},
				}},
				Volumes: []corev1.Volume{{Name: "notes", VolumeSource: corev1.VolumeSource{
					HostPath: &corev1.HostPathVolumeSource{Path: "/data/notes", Type: ptr.To(corev1.HostPathDirectoryOrCreate)}}}},
			}},
		},
	}
}

// ignoring tells a Job not to count what the machine's end does to its pods.
func ignoring(j *batchv1.Job) *batchv1.Job {
	j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
	}}}
	return j
}

func (m *machine) create(jobs ...*batchv1.Job) {
	m.t.Helper()
	for _, j := range jobs {
		if _, err := m.BatchV1().Jobs("default").Create(m.t.Context(), j, metav1.CreateOptions{}); err != nil {
			m.t.Fatal(err)
		}
	}
}

// until waits until a Job is as a test wants it, and returns it.
func (m *machine) until(name, what string, is func(*batchv1.Job) bool) *batchv1.Job {
	m.t.Helper()
	var job *batchv1.Job
	m.eventually("job "+name+": "+what, func() (err error) {
		if job, err = m.BatchV1().Jobs("default").Get(m.t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !is(job) {
			return fmt.Errorf("%+v", job.Status)
		}
		return nil
	})
	return job
}

// end returns the condition that a Job has ended with, nil before.
func end(j *batchv1.Job) *batchv1.JobCondition {
	for i := range j.Status.Conditions {
		c := &j.Status.Conditions[i]
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c
		}
	}
	return nil
}

// pods returns the pods of a Job by their phase.
func (m *machine) pods(job string) map[corev1.PodPhase][]corev1.Pod {
	m.t.Helper()
	byPhase := map[corev1.PodPhase][]corev1.Pod{}
	m.eventually("pods of "+job, func() error {
		list, err := m.CoreV1().Pods("default").List(m.t.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job})
		if err != nil {
			return err
		}
		clear(byPhase)
		for _, p := range list.Items {
			byPhase[p.Status.Phase] = append(byPhase[p.Status.Phase], p)
		}
		return nil
	})
	return byPhase
}

// disrupted reports whether a pod was ended from outside.
func disrupted(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// exitCode returns that of a pod's one container.
func exitCode(p *corev1.Pod) (int32, error) {
	if len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].State.Terminated == nil {
		return 0, errors.New("its container has not ended")
	}
	return p.Status.ContainerStatuses[0].State.Terminated.ExitCode, nil
}
