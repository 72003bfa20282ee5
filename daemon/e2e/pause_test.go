package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
)

// A Job that is paused stands still over kill -9 of the daemon, gives its CPU to others, refuses commands, and can be ended.
func TestPauseWithoutKilling(t *testing.T) {
	t.Parallel()
	d := start(t, "--allocatable", "cpu=1", "--network", "none")
	count := func(name, more string) string {
		return `{apiVersion: batch/v1, kind: Job, metadata: {name: ` + name + `}, spec: {backoffLimit: 0, ` + more + ` template: {spec: {
			restartPolicy: Never, terminationGracePeriodSeconds: 20, containers: [{name: c, image: docker.io/library/busybox:1.36,
			resources: {requests: {cpu: 1}}, livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}, command: [sh, -c,
			"trap 'echo ends; exit 0' TERM; ` + countsSteps + `"]}]}}}}`
	}

	d.apply(count("low", "activeDeadlineSeconds: 300,"))
	d.running("low", 1)
	d.eventually("it counts", func() error {
		if out := d.jobctl("logs", "jobs/low"); !strings.Contains(out, "3") {
			return fmt.Errorf("%q", out)
		}
		return nil
	})
	if out := d.jobctl("pause", "jobs/low"); out != "job.batch/low paused\n" {
		t.Errorf("it says %q", out)
	}
	d.frozen("low")
	at := d.counted("low")

	d.apply(jobManifest{name: "other", container: "resources: {requests: {cpu: 1}}"}.String())
	d.running("other", 1) // which takes all of the machine's CPU
	d.kill()
	d.serve()
	d.frozen("low")
	if now := d.counted("low"); now != at {
		t.Errorf("it went on from %d to %d", at, now)
	}
	pod := d.pods("low")[0]
	if pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("its probe has restarted it")
	}
	began := time.Now()
	if out, err := d.try("jobctl", nil, "exec", pod.Name, "--", "true"); err == nil || time.Since(began) > 20*time.Second ||
		!strings.Contains(out, "it is paused, and nothing can run in it before it goes on") {
		t.Errorf("a command in it: %v, %s", err, out)
	}
	why := strings.Join(strings.Fields(d.jobctl("why", "jobs/low")), " ")
	for _, words := range []string{"is paused: 0 of 1 succeeded", "Its activeDeadlineSeconds stand still", "jobctl continue jobs/low"} {
		if !strings.Contains(why, words) {
			t.Errorf("why does not say %q: %s", words, why)
		}
	}
	if out := d.jobctl("events", "--for", "job/low"); !strings.Contains(out, "Job paused") {
		t.Errorf("no event tells of it:\n%s", out)
	}
	// A pause is counted in whole seconds, and on a fast machine this one is shorter.
	paused := d.until("low", "paused", func(j *batchv1.Job) bool { return batch.PausedBy(&j.Status) == batch.PausedByUser })
	d.eventually("a second is over", func() error {
		if since, _ := batch.PausedSince(&paused.Status); time.Since(since) < time.Second {
			return errors.New("it is not")
		}
		return nil
	})
	if out := d.jobctl("continue", "--all"); !strings.Contains(out, "job.batch/low continued") {
		t.Errorf("it says %q", out)
	}
	d.countsOn("low")
	j := d.until("low", "was paused", func(j *batchv1.Job) bool { return batch.PausedFor(j.Annotations) > 0 })
	if ends, ok := batch.Deadline(j); !ok || !ends.After(j.Status.StartTime.Add(300*time.Second)) {
		t.Errorf("its deadline is at %s: the pause counts", ends)
	}
	if out, err := d.try("jobctl", nil, "annotate", "jobs/low", "jobd.dev/paused-at=now"); err == nil || !strings.Contains(out, "must be a time") {
		t.Errorf("a wrong time: %v, %s", err, out)
	}
	d.jobctl("annotate", "jobs/low", "--overwrite", "jobd.dev/paused-for=1000h")
	if j := d.until("low", "there", func(*batchv1.Job) bool { return true }); batch.PausedFor(j.Annotations) > time.Hour {
		t.Error("a client says for how long it was paused")
	}

	// One that waits for another can be paused, and then begins when it is continued. One that is suspended cannot.
	next := failing("next", "true")
	next.metadata, next.spec = `annotations: {jobd.dev/after: "other:any", jobd.dev/concurrency-group: db}`, "suspend: true"
	d.apply(next.String())
	if out := d.jobctl("pause", "jobs/next"); out != "job.batch/next paused\n" {
		t.Errorf("it says %q", out)
	}
	d.jobctl("delete", "jobs/other", "--wait=true")
	d.until("next", "paused", func(j *batchv1.Job) bool { return batch.State(j) == batch.StatePaused })
	d.kill()
	d.serve()
	member := failing("member", "true")
	member.metadata = "annotations: {jobd.dev/concurrency-group: db}"
	d.apply(member.String())
	d.complete("member") // the place is not taken
	if j := d.until("next", "there", func(*batchv1.Job) bool { return true }); j.Status.StartTime != nil || len(d.pods("next")) > 0 {
		t.Errorf("it has begun: %+v", j.Status)
	}
	if why := d.jobctl("why", "jobs/next"); !strings.Contains(strings.Join(strings.Fields(why), " "), "before it began") {
		t.Errorf("why says %s", why)
	}
	d.jobctl("continue", "jobs/next")
	d.complete("next")
	// The same holds of one that waits for its time. --all finds both.
	timed := failing("timed", "true")
	timed.metadata = fmt.Sprintf("annotations: {jobd.dev/start-at: %q}", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	timed.spec = "suspend: true"
	d.apply(timed.String())
	if out := d.jobctl("pause", "--all"); !strings.Contains(out, "job.batch/timed paused\n") || !strings.Contains(out, "job.batch/low paused\n") {
		t.Errorf("it says %q", out)
	}
	d.jobctl("annotate", "jobs/timed", "--overwrite", "jobd.dev/start-at="+time.Now().UTC().Format(time.RFC3339))
	d.until("timed", "resumed", func(j *batchv1.Job) bool { return j.Annotations[batch.ResumedAnnotation] != "" })
	if out := d.jobctl("get", "jobs", "timed", "--no-headers"); !strings.Contains(out, "Paused") || len(d.pods("timed")) > 0 {
		t.Errorf("%s, %d pods", out, len(d.pods("timed")))
	}
	d.jobctl("continue", "--all")
	d.complete("timed")
	later := jobManifest{name: "later", spec: "suspend: true"}
	d.apply(later.String())
	if out, err := d.try("jobctl", nil, "pause", "jobs/later"); err == nil || !strings.Contains(out, "is suspended") {
		t.Errorf("a suspended Job: %v, %s", err, out)
	}
	d.jobctl("delete", "jobs/later")

	// SIGTERM reaches what is frozen, and it ends as if it had not been.
	d.jobctl("pause", "low")
	d.frozen("low")
	d.jobctl("suspend", "low")
	d.eventually("its pod is gone", func() error {
		if pods := d.pods("low"); len(pods) > 0 {
			return fmt.Errorf("%s is %s", pods[0].Name, pods[0].Status.Phase)
		}
		return nil
	})
	d.jobctl("continue", "low")
	d.jobctl("resume", "low")
	d.running("low", 1)
	d.countsOn("low")
	for _, how := range [][]string{{"--grace-period=0", "--force"}, {"--wait=false"}} {
		d.jobctl("pause", "low")
		d.frozen("low")
		d.jobctl(append([]string{"delete", "pod", d.pods("low")[0].Name}, how...)...)
		d.eventually("its pod is gone", func() error {
			for _, p := range d.pods("low") {
				if p.Status.Phase == corev1.PodRunning {
					return fmt.Errorf("%s runs", p.Name)
				}
			}
			return nil
		})
		d.jobctl("delete", "jobs/low", "--ignore-not-found", "--wait=true")
		d.apply(count("low", ""))
		d.running("low", 1)
		d.countsOn("low")
	}
	// What is frozen when everything is cleaned up goes, too: the test fails if something of it is left.
	d.jobctl("pause", "low")
	d.frozen("low")
}
