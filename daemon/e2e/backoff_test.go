package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A Job has a back-off of its own, which explain, why and simulate show.
func TestOwnBackOff(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none", "--pod-backoff-base", "24h", "--pod-backoff-cap", "24h")
	job := func(name, base, limit, script string) string {
		return jobManifest{
			name: name, metadata: fmt.Sprintf("annotations: {jobd.dev/backoff-base: %s, jobd.dev/backoff-cap: %s}", base, limit),
			spec: "completions: 1, completionMode: Indexed, backoffLimitPerIndex: 3", program: []string{"sh", "-c", script},
		}.String()
	}
	for _, what := range []string{"job", "cronjob.spec.jobTemplate"} {
		out := strings.Join(strings.Fields(d.jobctl("explain", what)), " ")
		if !strings.Contains(out, "jobd.dev/backoff-base: the wait after the first failure of a pod") ||
			!strings.Contains(out, "jobd.dev/backoff-cap: the longest such wait") {
			t.Errorf("explain %s:\n%s", what, out)
		}
	}

	// The daemon's own back-off would take days.
	quick := job("quick", "10ms", "20ms", "exit 1")
	if out, err := d.try("jobctl", []byte(quick), "simulate", "-f", "-", "--pod", "*: exit=1"); err != nil ||
		!strings.Contains(out, `jobd.dev/backoff-base="10ms" jobd.dev/backoff-cap="20ms"`) || !strings.Contains(out, "The Job is Failed after 4s") {
		t.Errorf("simulate: %v\n%s", err, out)
	}
	d.apply(quick)
	d.failed("quick", "FailedIndexes")
	if n := len(d.pods("quick")); n != 4 {
		t.Errorf("%d pods, want 4", n)
	}

	d.apply(job("slow", "1h", "2h", "exit 1"))
	d.eventually("the back-off of slow", func() error {
		if out := d.jobctl("why", "jobs/slow"); !strings.Contains(out, "Index 0 waits for its next pod: it has failed once") ||
			!strings.Contains(out, "up to 2h0m0s") {
			return fmt.Errorf("why:\n%s", out)
		}
		return nil
	})
	for _, c := range []struct{ base, limit, want string }{
		{"soon", "1s", `metadata.annotations[jobd.dev/backoff-base]: Invalid value: "soon": must be a duration`},
		{"2s", "1s", `metadata.annotations[jobd.dev/backoff-cap]: Invalid value: "1s": must not be shorter than jobd.dev/backoff-base`},
	} {
		if out, err := d.try("jobctl", []byte(job("bad", c.base, c.limit, "true")), "apply", "-f", "-"); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%v, %s", err, out)
		}
	}
}
