package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
)

// JobSets and Jobs that were told to start after each other do so, over kill -9, and after one that is gone; what is played of them
// before is what they do.
func TestAfterJobSets(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	set := func(name, after, command string) string {
		held := ""
		if after != "" {
			held = `, annotations: {jobd.dev/after: "` + after + `"}`
		}
		return fmt.Sprintf(`
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: %s%s}
spec:
  suspend: %v
  network: {enableDNSHostnames: false}
  replicatedJobs:
  - name: w
    replicas: 2
    template:
      spec:
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers: [{name: c, image: "busybox:1.36", command: [sh, -c, %q]}]
---
`, name, held, after != "", command)
	}
	eval := failing("eval", "true")
	eval.metadata, eval.spec = `annotations: {jobd.dev/after: "jobsets/train"}`, "suspend: true, backoffLimit: 0"
	chain := eval.String() + "\n---\n" + set("train", "jobsets/prep", "sleep 1") + set("prep", "", "sleep 5")
	played, err := d.try("jobctl", []byte(chain), "simulate", "-f", "-", "--pod", "job=prep-w-0: after=5s", "--pod", "*: after=1s")
	for _, words := range []string{
		"5s  jobsets/train begins, since it waited for jobsets/prep to complete", "6s  jobs/eval begins, since it waited for jobsets/train to complete",
	} {
		if err != nil || !strings.Contains(played, words) {
			t.Errorf("%v, %q is not in\n%s", err, words, played)
		}
	}
	if said := d.applyWarned(chain); !strings.Contains(said, `there is no JobSet "train" yet`) {
		t.Errorf("it warns: %s", said)
	}
	out, err := d.try("jobctl", []byte(set("circle", "circle-w-1", "true")), "apply", "-f", "-")
	if err == nil || !strings.Contains(out, "jobsets/circle waits for circle-w-1 waits for jobsets/circle") {
		t.Errorf("%v: %s", err, out)
	}
	if out := d.jobctl("get", "jobs", "eval"); !strings.Contains(out, "After:jobsets/train") {
		t.Errorf("%s", out)
	}
	if out := d.jobctl("why", "jobsets/train"); !strings.Contains(out, "jobsets/train: waits: JobSet prep has to complete first.") ||
		!strings.Contains(out, "jobctl why jobsets/prep") {
		t.Errorf("%s", out)
	}
	if out := d.jobctl("get", "--raw", "/apis/batch/v1/namespaces/default/jobs/eval/picture"); !strings.Contains(out, `"after":[{"name":"jobsets/train"`) ||
		!strings.Contains(out, `{"name":"jobsets/prep","for":"jobsets/train","when":"ok","state":"Running","depth":1}`) {
		t.Errorf("the picture: %s", out)
	}
	d.kill()
	time.Sleep(5 * time.Second) // the pods of prep end while no daemon is there
	d.serve()
	d.complete("eval")
	js, err := d.jobSet("train")
	if err != nil || js.Status.TerminalState != "Completed" || js.Annotations["jobd.dev/resumed-at"] == "" {
		t.Errorf("%v: %+v", err, js)
	}
	out = d.jobctl("events", "--for", "jobsets/train")
	if strings.Count(out, "NeedsMet") != 1 || !strings.Contains(out, "jobsets/prep has completed (jobd.dev/after)") {
		t.Errorf("%s", out)
	}
	if ends := d.finished("prep-w-1").Status.CompletionTime; d.finished("train-w-0").Status.StartTime.Before(ends) {
		t.Errorf("train begins before %s", ends)
	}
	if said := d.applyWarned(chain); !strings.Contains(said, "stays false, since the JobSet was resumed at") {
		t.Errorf("applied again it warns: %s", said)
	}

	// One that is gone is in the history, also to another daemon.
	d.jobctl("delete", "jobsets/train")
	d.kill()
	d.serve()
	out, err = d.try("jobctl", nil, "submit", "--name", "late", "--after", "jobsets/train", "--image", "busybox:1.36", "--pull", "never", "--", "true")
	if err != nil || !strings.Contains(out, "jobsets/train ended at") || !strings.Contains(out, "(complete), and is gone: it is not waited for") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = d.try("jobctl", []byte(set("later", "", "true")), "submit", "-f", "-", "--after", "jobsets/train:failed")
	if err == nil || !strings.Contains(out, "so this JobSet would wait for ever for jobsets/train to fail") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = d.try("jobctl", []byte(set("later", "", "exit 3")), "submit", "-f", "-", "--after", "jobsets/prep,late:any")
	if err == nil || !strings.Contains(out, "jobset later: failed: ") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = d.try("jobctl", nil, "submit", "--detach", "--name", "never", "--after", "jobsets/later", "--image", "busybox:1.36", "--", "true")
	if err != nil || !strings.Contains(out, `JobSet "later" is failed, and this one waits for jobsets/later to complete`) {
		t.Errorf("%v\n%s", err, out)
	}
	if out := d.jobctl("why", "jobs/never"); !strings.Contains(out, "JobSet later has to complete first, but has failed") {
		t.Errorf("%s", out)
	}
	d.apply(set("clean", "jobsets/later:failed,never:any", "true"))
	d.jobctl("delete", "jobs/never")
	d.eventually("clean begins after a failure and a deletion", func() error {
		if js, err := d.jobSet("clean"); err != nil || js.Status.TerminalState != "Completed" {
			return fmt.Errorf("%w: %+v", errors.Join(err), js)
		}
		return nil
	})
	if c := condition(d.finished("clean-w-0"), batchv1.JobComplete); c == nil {
		t.Error("it is not complete")
	}
}
