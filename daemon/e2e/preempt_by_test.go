package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
)

// A Job that a higher priority displaces is frozen, stands still over kill -9 of the daemon at each step, and goes on by itself when its
// CPU is free again. Where memory is short it is evicted, and what somebody pauses stays paused.
func TestPreemptByPause(t *testing.T) {
	t.Parallel()
	d := start(t, "--allocatable", "cpu=1,memory=1Gi", "--network", "none")
	d.apply("\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}")
	counts := func(name, metadata, memory string) {
		d.apply(jobManifest{
			name: name, metadata: metadata, spec: "activeDeadlineSeconds: 3600", container: "resources: {requests: {cpu: 1, memory: " + memory + "}}",
			program: []string{"sh", "-c", countsSteps},
		}.String())
	}
	high := func(name, memory string) {
		d.apply(jobManifest{
			name: name, pod: "priorityClassName: high", container: "resources: {requests: {cpu: 1, memory: " + memory + "}}",
		}.String())
	}
	says := func(want string, args ...string) {
		t.Helper()
		d.eventually(strings.Join(args, " "), func() error {
			if out := strings.Join(strings.Fields(d.jobctl(args...)), " "); !strings.Contains(out, want) {
				return fmt.Errorf("it does not say %q: %s", want, out)
			}
			return nil
		})
	}

	if out, err := d.try("jobctl", nil, "create", "namespace", "team"); err != nil {
		t.Fatal(out)
	}
	if out, err := d.try("jobctl", nil, "annotate", "namespace", "team", "jobd.dev/preempt-by=freeze"); err == nil ||
		!strings.Contains(out, `supported values: "evict", "pause"`) {
		t.Errorf("a wrong value: %v, %s", err, out)
	}
	d.jobctl("annotate", "namespace", "default", "jobd.dev/preempt-by=pause")
	counts("low", "", "300Mi")
	d.running("low", 1)
	d.countsOn("low")
	first := d.pods("low")[0]

	high("urgent", "300Mi")
	d.kill() // maybe before the decision is stored, or before the containers are frozen
	d.serve()
	d.frozen("low")
	d.running("urgent", 1)
	at := d.counted("low")
	d.kill()
	d.serve()
	d.running("urgent", 1)
	if now := d.counted("low"); now != at {
		t.Errorf("it went on from %d to %d", at, now)
	}
	says("low Preempted", "get", "jobs")
	says("is preempted: 0 of 1 succeeded", "why", "jobs/low")
	says("goes on by itself as soon as its CPU is free", "why", "jobs/low")
	says("activeDeadlineSeconds stand still", "why", "jobs/low")
	says("Pods are paused for others of a higher priority (jobd.dev/preempt-by)", "events", "--for", "job/low")
	says("Paused for pod", "events", "--for", "pod/"+first.Name)
	says("job.batch/low is not paused by anybody: its pods go on when their CPU is free", "continue", "low")

	d.jobctl("delete", "jobs/urgent", "--wait=true")
	d.kill() // maybe before the decision is stored, or before the containers go on
	d.serve()
	d.countsOn("low")
	if p := d.pods("low"); len(p) != 1 || p[0].UID != first.UID || p[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("it is another pod: %+v", p)
	}
	d.until("low", "runs, and was paused", func(j *batchv1.Job) bool {
		return batch.State(j) == batch.StateRunning && batch.PausedBy(&j.Status) == "" && batch.PausedFor(j.Annotations) > 0
	})

	// What somebody pauses goes on only when that is over, and then when there is room.
	high("urgent", "300Mi")
	d.frozen("low")
	d.running("urgent", 1)
	d.jobctl("pause", "low")
	says("low JobPaused", "get", "jobs", "-o", `custom-columns=N:.metadata.name,S:.status.conditions[?(@.type=="jobd.dev/Paused")].reason`)
	d.jobctl("delete", "jobs/urgent", "--wait=true")
	counts("other", "", "300Mi")
	d.running("other", 1)
	d.jobctl("continue", "low")
	says("is preempted", "why", "jobs/low")
	d.jobctl("delete", "jobs/other", "--wait=true")
	d.countsOn("low")

	// Memory is not given back by a pause: where it is short, the pod ends as usual.
	high("large", "900Mi")
	d.eventually("the pod is evicted", func() error {
		for _, p := range d.pods("low") {
			if p.UID == first.UID && p.Status.Phase == corev1.PodRunning {
				return errors.New("it runs")
			}
		}
		return nil
	})
	d.running("large", 1)
	d.jobctl("delete", "jobs/large", "--wait=true")
	d.running("low", 1)
	d.countsOn("low")
	// What is frozen when everything is cleaned up goes, too: the test fails if something of it is left.
	high("urgent", "300Mi")
	d.frozen("low")
}
