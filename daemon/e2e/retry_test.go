package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
)

// The failed indexes of a Job run again, the succeeded stay, and the history of attempts is kept.
func TestRetryOnlyWhatFailed(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	host := t.TempDir()
	d.apply(jobManifest{
		name:      "train",
		spec:      "completions: 3, parallelism: 3, completionMode: Indexed, backoffLimitPerIndex: 0, ttlSecondsAfterFinished: 3600",
		pod:       "volumes: [{name: h, hostPath: {path: " + host + "}}]",
		container: "volumeMounts: [{name: h, mountPath: /h}], resources: {limits: {memory: 32Mi}}",
		program:   []string{"sh", "-c", "echo ran-$JOB_COMPLETION_INDEX; [ $JOB_COMPLETION_INDEX != 1 ] || [ -e /h/good ]"},
	}.String())
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := d.try("jobctl", nil, args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	failed := d.failed("train", batchv1.JobReasonFailedIndexes)
	first := d.pods("train")
	refused(`Unsupported value: "d"`, "retry", "jobs/train", "-c", "d", "--memory", "2x")
	d.jobctl("retry", "jobs/train", "--memory", "2x") // index 1 fails again
	d.until("train", "failed again", func(j *batchv1.Job) bool {
		return batch.AttemptOf(j.Annotations) == 2 && condition(j, batchv1.JobFailed) != nil
	})
	if out := d.jobctl("why", "jobs/train"); !strings.Contains(out, "This is attempt 2") || !strings.Contains(out, "64Mi instead of 32Mi") ||
		!strings.Contains(out, "$ jobctl retry jobs/train\n") {
		t.Errorf("why:\n%s", out)
	}
	d.kill() // what was decided is kept
	d.serve()
	writeIn(t, host, "good")
	if out := d.jobctl("retry", "--all"); out != "job.batch/train retried: attempt 3\n" {
		t.Errorf("it says %q", out)
	}
	if out, _, code := exitOf(t, d.jobctlWith("follow", "jobs/train"), ""); code != 0 || !strings.Contains(out, "ran-1") {
		t.Errorf("follow: %d, %s", code, out)
	}
	j := d.complete("train")
	if s := j.Status; s.Succeeded != 3 || s.Failed != 0 || s.CompletedIndexes != "0-2" || *s.FailedIndexes != "" ||
		s.StartTime.Before(failed.Status.StartTime) {
		t.Errorf("%+v", s)
	}
	runs := map[string]int{}
	for _, p := range d.pods("train") {
		runs[p.Annotations[batchv1.JobCompletionIndexAnnotation]]++
		if batch.PodAttempt(p.Annotations) > 1 && p.Spec.Containers[0].Resources.Limits.Memory().String() != "64Mi" {
			t.Errorf("%s has %v", p.Name, p.Spec.Containers[0].Resources)
		}
	}
	if runs["0"] != 1 || runs["1"] != 3 || runs["2"] != 1 || len(first) != 3 {
		t.Errorf("the pods of each index: %v", runs)
	}
	attempts := batch.Attempts(j.Annotations)
	if len(attempts) != 2 || attempts[0].FailedIndexes != "1" || attempts[0].Reason != "FailedIndexes" || attempts[1].Attempt != 2 {
		t.Errorf("attempts: %+v", attempts)
	}
	if out := d.jobctl("get", "events", "--field-selector", "reason=Retried"); strings.Count(out, "Attempt ") != 2 {
		t.Errorf("events:\n%s", out)
	}
	refused("the Job is complete", "retry", "jobs/train")
	refused("name the Jobs", "retry")

	// A Job without indexes, and one of a CronJob.
	d.apply(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate: {spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: c, image: "busybox:1.36", command: [sh, -c, "until [ -e /go ]; do sleep 0.1; done; exit 3"]}]}}}}
`)
	d.jobctl("create", "job", "tonight", "--from=cronjob/nightly")
	refused("the Job has not finished", "retry", "jobs/tonight")
	end := func() {
		d.running("tonight", 1)
		// In the background: what runs in a container ends with it, and its exit code with that.
		d.jobctl("exec", d.running("tonight", 1)[0].Name, "--", "sh", "-c", "(sleep 0.3; touch /go) >/dev/null 2>&1 &")
		d.failed("tonight", batchv1.JobReasonBackoffLimitExceeded)
	}
	end()
	d.jobctl("retry", "tonight")
	end()
	// It was made by hand: no concurrencyPolicy may end it.
	cj, err := d.BatchV1().CronJobs("default").Get(t.Context(), "nightly", metav1.GetOptions{})
	if err != nil || len(cj.Status.Active) != 0 {
		t.Errorf("the CronJob has it as active: %v %v", cj.Status.Active, err)
	}
	// By the API, and by those who may only look.
	raw, err := d.BatchV1().RESTClient().Post().Namespace("default").Resource("jobs").Name("tonight").SubResource("retry").
		Body([]byte(`{"nonsense":1}`)).Do(t.Context()).Raw()
	if err == nil || !strings.Contains(string(raw), `unknown field \"nonsense\"`) {
		t.Errorf("an unknown field: %v %s", err, raw)
	}
	may := func(role string) string {
		out, _ := d.try("jobctl", nil, "auth", "can-i", "create", "jobs", "--subresource", "retry", "--as", "me", "--as-group", "jobd:role:"+role)
		return strings.TrimSpace(out)
	}
	if view, submit := may("view"), may("submit"); view != "no" || submit != "yes" {
		t.Errorf("may retry: view %s, submit %s", view, submit)
	}
}

func writeIn(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
