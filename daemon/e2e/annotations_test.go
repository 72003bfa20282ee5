package e2e

import (
	"strings"
	"testing"
)

// TestUnknownAnnotations is what is said of annotations that have no effect: whoever writes them is warned, with the nearest one, and what
// is written is taken all the same.
func TestUnknownAnnotations(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	apply := func(manifest string) string {
		t.Helper()
		out, err := d.try("jobctl", []byte(manifest), "apply", "-f", "-")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Join(strings.Fields(out), " ")
	}
	says := func(out string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("it does not say %q: %s", want, out)
			}
		}
	}
	j := failing("typo", "true")
	j.metadata = "annotations: {jobd.dev/windw: 22:00-06:00, jobd.dev/anything-else: x, jobd.dev/signal: USR1@10s, example.com/windw: x}"
	out := apply(j.String())
	says(out, "Warning: metadata.annotations[jobd.dev/windw]: has no effect: jobd has no such annotation; is jobd.dev/window meant?",
		"metadata.annotations[jobd.dev/anything-else]: has no effect: jobd has no such annotation",
		"metadata.annotations[jobd.dev/signal]: has no effect: it belongs in spec.template.metadata.annotations", "job.batch/typo created")
	if strings.Contains(out, "example.com") {
		t.Errorf("it warns of an annotation of others: %s", out)
	}
	d.complete("typo")
	// What was there already draws no second warning.
	if out := d.jobctl("annotate", "jobs/typo", "jobd.dev/prioritised-at=x"); strings.Contains(out, "windw") ||
		!strings.Contains(out, "is jobd.dev/prioritized-at meant?") {
		t.Errorf("%s", out)
	}
	says(apply(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: c, annotations: {jobd.dev/jiter: 10m, jobd.dev/concurrency-group: db}}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    metadata: {annotations: {jobd.dev/concurency-group: db, jobd.dev/jitter: 10m}}
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36"}]}}}
`), "metadata.annotations[jobd.dev/jiter]: has no effect: jobd has no such annotation; is jobd.dev/jitter meant?",
		"metadata.annotations[jobd.dev/concurrency-group]: has no effect: it belongs in spec.jobTemplate.metadata.annotations",
		"spec.jobTemplate.metadata.annotations[jobd.dev/concurency-group]: has no effect: jobd has no such annotation; is jobd.dev/concurrency-group meant?",
		"spec.jobTemplate.metadata.annotations[jobd.dev/jitter]: has no effect: it belongs in metadata.annotations")
	says(apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: team, annotations: {jobd.dev/shares: \"2\"}}\n"), "is jobd.dev/share meant?")
	says(d.jobctl("explain", "annotations"), "jobd.dev/window:", "jobd.dev/share:")
}
