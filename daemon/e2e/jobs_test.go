package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/testdata/images"
)

func TestPi(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.importImage(images.Perl("docker.io/library/perl:5.34.0"))
	d.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: pi}
spec:
  backoffLimit: 4
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: pi
        image: perl:5.34.0
        command: ["perl", "-Mbignum=bpi", "-wle", "print bpi(50)"]
`)
	d.complete("pi")
	if got, want := d.jobctl("logs", "jobs/pi"), "3.1415926535897932384626433832795028841971693993751\n"; got != want {
		t.Errorf("logs jobs/pi: %q, want %q", got, want)
	}
	describe := d.jobctl("describe", "job", "pi")
	for _, want := range []string{"1 Succeeded", "SuccessfulCreate", "Completed", "Duration:"} {
		if !strings.Contains(describe, want) {
			t.Errorf("describe does not say %q:\n%s", want, describe)
		}
	}
}

func TestIndexedJobRunsEachIndexOnce(t *testing.T) {
	t.Parallel()
	d := start(t)
	dir := t.TempDir()
	d.apply(fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: indexed}
spec:
  completions: 20
  parallelism: 4
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: busybox:1.36
        command: [sh, -c, "echo $HOSTNAME >> /out/$JOB_COMPLETION_INDEX"]
        volumeMounts: [{name: out, mountPath: /out}]
      volumes: [{name: out, hostPath: {path: %s}}]
`, dir))
	job := d.complete("indexed")
	if job.Status.Succeeded != 20 || job.Status.CompletedIndexes != "0-19" {
		t.Errorf("succeeded %d, completedIndexes %q", job.Status.Succeeded, job.Status.CompletedIndexes)
	}
	for i := range 20 {
		got, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
		if want := fmt.Sprintf("indexed-%d\n", i); err != nil || string(got) != want {
			t.Errorf("index %d wrote %q (%v), want %q", i, got, err, want)
		}
	}
}

// twiceThenFine is a Job that fails in its first two runs, which it counts in a directory of the host.
func twiceThenFine(name, policy, dir string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  backoffLimit: 4
  template:
    spec:
      restartPolicy: %s
      containers:
      - name: c
        image: busybox:1.36
        command: [sh, -c, 'echo run >> /out/runs; [ $(wc -l < /out/runs) -gt 2 ] || exit 3; echo fine']
        volumeMounts: [{name: out, mountPath: /out}]
      volumes: [{name: out, hostPath: {path: %s}}]
`, name, policy, dir)
}

func TestNeverMakesANewPodForEachFailure(t *testing.T) {
	t.Parallel()
	d := start(t, "--pod-backoff-base", "1s")
	d.apply(twiceThenFine("never", "Never", t.TempDir()))
	job := d.complete("never")
	if job.Status.Failed != 2 || job.Status.Succeeded != 1 || len(d.pods("never")) != 3 {
		t.Errorf("failed %d, succeeded %d, %d pods; want 2, 1, 3", job.Status.Failed, job.Status.Succeeded, len(d.pods("never")))
	}
	for _, p := range d.pods("never") {
		if end := p.Status.ContainerStatuses[0].State.Terminated; p.Status.Phase == corev1.PodFailed && end.ExitCode != 3 {
			t.Errorf("pod %s: exit code %d, want 3", p.Name, end.ExitCode)
		}
	}
}

func TestOnFailureRestartsInPlace(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(twiceThenFine("onfailure", "OnFailure", t.TempDir()))
	job := d.complete("onfailure")
	pods := d.pods("onfailure")
	if job.Status.Failed != 0 || len(pods) != 1 {
		t.Fatalf("failed %d, %d pods; want 0, 1", job.Status.Failed, len(pods))
	}
	if got := pods[0].Status.ContainerStatuses[0].RestartCount; got != 2 {
		t.Errorf("restartCount %d, want 2", got)
	}
	if got := d.jobctl("logs", "jobs/onfailure"); got != "fine\n" {
		t.Errorf("logs: %q", got)
	}
	if got := d.jobctl("logs", "--previous", "jobs/onfailure"); got != "" {
		t.Errorf("logs --previous: %q", got)
	}
}

// sleeper is a Job whose pods sleep for that many seconds.
func sleeper(name string, parallelism, seconds int, extra string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  completions: %d
  parallelism: %d
  %s
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - name: c
        image: busybox:1.36
        command: [sleep, "%d"]
`, name, parallelism, parallelism, extra, seconds)
}

func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(sleeper("pause", 2, 600, ""))
	d.running("pause", 2)
	d.jobctl("patch", "job", "pause", "--type=strategic", "--patch", `{"spec":{"suspend":true}}`)
	job := d.until("pause", "suspended", func(j *batchv1.Job) bool {
		return condition(j, batchv1.JobSuspended) != nil && j.Status.Active == 0
	})
	if job.Status.Failed != 0 || job.Status.StartTime != nil {
		t.Errorf("failed %d, startTime %v; want none", job.Status.Failed, job.Status.StartTime)
	}
	d.running("pause", 0)
	d.jobctl("patch", "job", "pause", "--type=strategic", "--patch", `{"spec":{"suspend":false}}`)
	d.running("pause", 2)
	if events := d.jobctl("events", "--for", "job/pause"); !strings.Contains(events, "Suspended") || !strings.Contains(events, "Resumed") {
		t.Errorf("events:\n%s", events)
	}
}

func TestDeadlineEndsThePods(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(sleeper("late", 1, 600, "activeDeadlineSeconds: 1"))
	if job := d.failed("late", batchv1.JobReasonDeadlineExceeded); job.Status.Active != 0 || job.Status.Failed != 1 {
		t.Errorf("active %d, failed %d; want 0, 1", job.Status.Active, job.Status.Failed)
	}
	d.running("late", 0)
}

func TestTTLZeroRemovesJobAndPods(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(sleeper("brief", 1, 0, "ttlSecondsAfterFinished: 0"))
	d.eventually("the Job is gone", func() error {
		_, err := d.BatchV1().Jobs("default").Get(t.Context(), "brief", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v", err)
	})
	if pods := d.pods("brief"); len(pods) != 0 {
		t.Errorf("%d pods are left", len(pods))
	}
}

func TestDeleteTakesThePodsAlong(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(sleeper("gone", 2, 600, ""))
	d.running("gone", 2)
	d.jobctl("delete", "job", "gone")
	d.eventually("its pods are gone", func() error {
		if n := len(d.pods("gone")); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
}

func TestOrphanLeavesThePods(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(sleeper("old", 2, 600, ""))
	d.running("old", 2)
	d.jobctl("delete", "job", "old", "--cascade=orphan")
	for _, p := range d.running("old", 2) {
		if len(p.OwnerReferences)+len(p.Finalizers) > 0 {
			t.Errorf("pod %s: owners %v, finalizers %v", p.Name, p.OwnerReferences, p.Finalizers)
		}
	}
	d.jobctl("delete", "pods", "--all", "--now")
}

func TestErrorsThatAPersonCanActOn(t *testing.T) {
	t.Parallel()
	d := start(t)
	t.Run("an unknown field is named", func(t *testing.T) {
		refused(t, d, strings.Replace(sleeper("bad", 1, 0, ""), "completions:", "compleitons:", 1), `unknown field "spec.compleitons"`)
	})
	t.Run("a wrong type is named", func(t *testing.T) {
		refused(t, d, strings.Replace(sleeper("bad", 1, 0, ""), "completions: 1", "completions: many", 1), "completions")
	})
	t.Run("a missing template is named", func(t *testing.T) {
		refused(t, d, "{apiVersion: batch/v1, kind: Job, metadata: {name: bad}, spec: {}}", "spec.template.spec.containers: Required value")
	})
	t.Run("an image that does not exist shows in the pod and its events", func(t *testing.T) {
		d.apply(jobManifest{name: "no-image", container: `image: "127.0.0.1:9/nothing:1"`}.String())
		d.eventually("the pod says ErrImagePull", func() error {
			for _, p := range d.pods("no-image") {
				if s := p.Status.ContainerStatuses; len(s) == 1 && s[0].State.Waiting != nil && strings.HasSuffix(s[0].State.Waiting.Reason, "ImagePull") ||
					len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "ImagePullBackOff" {
					return nil
				}
			}
			return fmt.Errorf("%v", d.pods("no-image"))
		})
		if events := d.jobctl("events"); !strings.Contains(events, "127.0.0.1:9/nothing:1") || !strings.Contains(events, "connection refused") {
			t.Errorf("events do not say what is wrong:\n%s", events)
		}
	})
	t.Run("a command that does not exist shows as StartError", func(t *testing.T) {
		d.apply(jobManifest{name: "no-command", spec: "backoffLimit: 0", program: []string{"no-such-command"}}.String())
		d.failed("no-command", batchv1.JobReasonBackoffLimitExceeded)
		end := d.pods("no-command")[0].Status.ContainerStatuses[0].State.Terminated
		if end.Reason != "StartError" || end.ExitCode != 128 || !strings.Contains(end.Message, "no-such-command") {
			t.Errorf("terminated: %+v", end)
		}
	})
}

func refused(t *testing.T, d *daemon, manifest, want string) {
	t.Helper()
	out, err := d.try("jobctl", []byte(manifest), "apply", "-f", "-")
	if err == nil || !strings.Contains(out, want) {
		t.Errorf("got %v: %s\nwant it refused with %q", err, out, want)
	}
}
