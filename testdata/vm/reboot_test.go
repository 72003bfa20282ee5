package vm

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestReboot restarts the machine in the middle of Jobs. Of each, one index has ended and two are running.
func TestReboot(t *testing.T) {
	m := bootAtLength(t)
	m.serve()
	m.rebootsWell()
	m.clean()
}

func (m *machine) rebootsWell() {
	t := m.t
	t.Helper()
	const waits = `[ $JOB_COMPLETION_INDEX = 0 ] || until [ -e /notes/go ]; do sleep 0.2; done; echo end`
	counting, strict := job("counting", 3, 3, waits), job("strict", 3, 3, waits)
	strict.Spec.BackoffLimit = ptr.To[int32](0)
	inPlace := job("in-place", 3, 3, waits)
	inPlace.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	m.create(ignoring(job("ignoring", 3, 3, waits)), counting, strict, inPlace)
	names := []string{"ignoring", "counting", "strict", "in-place"}
	for _, name := range names {
		m.until(name, "one pod has ended, two run", func(j *batchv1.Job) bool {
			return j.Status.Succeeded == 1 && ptr.Deref(j.Status.Ready, 0) == 2
		})
	}
	t.Log("one pod of each Job has ended, two run")

	m.reboot()
	m.ready()
	m.sound()
	if said := m.sh("cat /var/lib/jobd.log"); !strings.Contains(said, "the host went down since the last run") {
		t.Errorf("jobd says nothing about the reboot:\n%s", said)
	}
	lost := m.pods("ignoring")[corev1.PodFailed]
	m.sh("touch /data/notes/go")

	for _, want := range []struct {
		name                      string
		end                       batchv1.JobConditionType
		succeeded, failed, killed int32
	}{
		{"ignoring", batchv1.JobComplete, 3, 0, 2},
		{"counting", batchv1.JobComplete, 3, 2, 2},
		{"strict", batchv1.JobFailed, 1, 2, 2},
		{"in-place", batchv1.JobComplete, 3, 0, 0},
	} {
		j := m.until(want.name, "ended", func(j *batchv1.Job) bool { return end(j) != nil })
		pods := m.pods(want.name)
		t.Logf("%s: %s; %d succeeded, %d failed, pods: %d Succeeded, %d Failed", want.name, end(j).Type,
			j.Status.Succeeded, j.Status.Failed, len(pods[corev1.PodSucceeded]), len(pods[corev1.PodFailed]))
		if end(j).Type != want.end || j.Status.Succeeded != want.succeeded || j.Status.Failed != want.failed {
			t.Errorf("job %s: %+v", want.name, j.Status)
		}
		if len(pods[corev1.PodSucceeded]) != int(want.succeeded) || len(pods[corev1.PodFailed]) != int(want.killed) {
			t.Errorf("job %s: %d pods Succeeded, %d Failed, want %d and %d", want.name,
				len(pods[corev1.PodSucceeded]), len(pods[corev1.PodFailed]), want.succeeded, want.killed)
		}
		for _, p := range pods[corev1.PodFailed] {
			if !disrupted(&p) {
				t.Errorf("pod %s was ended by the reboot and is not a DisruptionTarget: %+v", p.Name, p.Status)
			}
		}
	}
	for _, p := range lost {
		log, err := m.CoreV1().Pods("default").GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err != nil || !strings.HasPrefix(string(log), "start\n") {
			t.Errorf("log of pod %s from before the reboot: %q, %v", p.Name, log, err)
		}
	}
	if len(lost) == 0 {
		t.Error("no pod was lost")
	}
	for _, name := range names {
		if err := m.BatchV1().Jobs("default").Delete(
			t.Context(), name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)},
		); err != nil {
			t.Error(err)
		}
	}
	m.eventually("the Jobs are gone", func() error {
		pods, err := m.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods are there", len(pods.Items))
		}
		return err
	})
	m.sh("rm -r /data/notes")
}
