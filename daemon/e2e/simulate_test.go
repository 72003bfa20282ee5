package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a Job's rules will do is what they then do.
func TestSimulate(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	// What a script does is what --pod says that it does.
	for _, c := range []struct{ name, spec, script, pod string }{
		{"one-index", "completions: 5, parallelism: 3, completionMode: Indexed, backoffLimitPerIndex: 1",
			`[ $JOB_COMPLETION_INDEX != 3 ]`, "index=3: exit=1 after=2s"},
		{"twice", "completions: 3, parallelism: 3, completionMode: Indexed, backoffLimitPerIndex: 2",
			`[ $JOB_COMPLETION_INDEX != 1 ] || [ $FAILURES = 2 ]`, "index=1 start=1-2: exit=1"},
		{"too-many-indexes", "completions: 3, parallelism: 1, completionMode: Indexed, backoffLimitPerIndex: 0, maxFailedIndexes: 1",
			`exit 1`, "*: exit=1"},
		{"back-off-limit", "completions: 2, backoffLimit: 2", `exit 3`, "*: exit=3 after=1s"},
		{"fail-job", "completions: 3, parallelism: 1, completionMode: Indexed, podFailurePolicy: {rules: [{action: FailJob, " +
			"onExitCodes: {operator: In, values: [42]}}]}",
			`[ $JOB_COMPLETION_INDEX != 1 ] || exit 42`, "index=1: exit=42"},
		{"succeeded-early", "completions: 4, parallelism: 1, completionMode: Indexed, successPolicy: {rules: [{succeededIndexes: 0-1}]}",
			`true`, "*: after=1s"},
	} {
		manifest := fmt.Sprintf(`{apiVersion: batch/v1, kind: Job,
metadata: {name: %s, annotations: {jobd.dev/backoff-base: 100ms, jobd.dev/backoff-cap: 100ms}},
spec: {%s, template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: [sh, -c, %q],
  env: [{name: FAILURES, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"}}}]}]}}}}`,
			c.name, c.spec, c.script)
		var simulated struct {
			Status   batchv1.JobStatus
			Pods     int
			Finished bool
		}
		out, err := d.try("jobctl", []byte(manifest), "simulate", "-f", "-", "--pod", c.pod, "-o", "json")
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, out)
		}
		if err := json.Unmarshal([]byte(out), &simulated); err != nil || !simulated.Finished {
			t.Fatalf("%s: %v\n%s", c.name, err, out)
		}
		d.apply(manifest)
		_, _ = d.try("jobctl", nil, "wait", "--for=finished", "jobs/"+c.name, "--timeout="+patience.String()) // it fails when the Job does
		real, err := d.BatchV1().Jobs("default").Get(t.Context(), c.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(withoutChance(c.name, simulated.Status), withoutChance(c.name, real.Status)); diff != "" {
			t.Errorf("%s: - simulated, + the daemon's:\n%s", c.name, diff)
		}
		if n := len(d.pods(c.name)); n != simulated.Pods {
			t.Errorf("%s: %d pods, but the simulation has %d", c.name, n, simulated.Pods)
		}
	}
}

// withoutChance returns a status without times and the random ends of pods' names.
func withoutChance(job string, s batchv1.JobStatus) batchv1.JobStatus {
	suffix := regexp.MustCompile(`(` + job + `(-\d+)?)-[a-z0-9]{5}\b`)
	s.StartTime, s.CompletionTime = nil, nil
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.LastProbeTime, c.LastTransitionTime = metav1.Time{}, metav1.Time{}
		c.Message = suffix.ReplaceAllString(c.Message, "$1-xxxxx")
	}
	return s
}
