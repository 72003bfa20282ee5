package batch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestJobTable(t *testing.T) {
	now := time.Date(2026, 11, 20, 13, 40, 0, 0, time.UTC)
	for _, tc := range []struct{ name, job, want string }{
		{"running", `{spec: {completions: 3}, status: {succeeded: 1, startTime: '2026-11-20T13:39:00Z'}}`, "Running 1/3 60s"},
		{"not yet started", `{spec: {completions: 3}}`, "Running 0/3 "},
		{
			"complete",
			`{spec: {completions: 1}, status: {succeeded: 1, startTime: '2026-11-20T13:34:00Z', completionTime: '2026-11-20T13:34:07Z', conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}]}}`,
			"Complete 1/1 7s",
		},
		{
			"failed goes on counting, as in a cluster",
			`{spec: {completions: 1}, status: {startTime: '2026-11-20T13:39:00Z', conditions: [{type: FailureTarget, status: 'True'}, {type: Failed, status: 'True'}]}}`,
			"Failed 0/1 60s",
		},
		{"about to fail", `{spec: {completions: 1}, status: {conditions: [{type: FailureTarget, status: 'True'}]}}`, "FailureTarget 0/1 "},
		{"about to complete", `{spec: {completions: 1}, status: {conditions: [{type: SuccessCriteriaMet, status: 'True'}]}}`, "SuccessCriteriaMet 0/1 "},
		{"suspended", `{spec: {completions: 1}, status: {conditions: [{type: Suspended, status: 'True'}]}}`, "Suspended 0/1 "},
		{"paused", `{metadata: {annotations: {jobd.dev/paused-at: "2026-01-01T00:00:00Z"}}, spec: {completions: 1}, status: {active: 1, ready: 1}}`, "Paused 0/1 "},
		{
			"paused before it has begun",
			`{metadata: {annotations: {jobd.dev/paused-at: "2026-01-01T00:00:00Z", jobd.dev/concurrency-group: db}}, spec: {completions: 1}}`, "Paused 0/1 ",
		},
		{
			"paused while it waits for another",
			`{metadata: {annotations: {jobd.dev/paused-at: "2026-01-01T00:00:00Z", jobd.dev/after: a}}, spec: {completions: 1, suspend: true}}`, "Paused 0/1 ",
		},
		{
			"suspended by somebody, and paused",
			`{metadata: {annotations: {jobd.dev/paused-at: "2026-01-01T00:00:00Z"}}, spec: {completions: 1, suspend: true},
				status: {conditions: [{type: Suspended, status: 'True'}]}}`, "Suspended 0/1 ",
		},
		{"it waits for a place in its group", `{metadata: {annotations: {jobd.dev/concurrency-group: db}}, spec: {completions: 1}}`, "Group:db 0/1 "},
		{"resumed", `{spec: {completions: 1}, status: {conditions: [{type: Suspended, status: 'False'}]}}`, "Running 0/1 "},
		{"being deleted", `{metadata: {deletionTimestamp: '2026-11-20T13:39:00Z'}, spec: {completions: 1}}`, "Terminating 0/1 "},
		{"a work queue", `{spec: {parallelism: 3}, status: {succeeded: 2}}`, "Running 2/1 of 3 "},
		{"a work queue of one", `{spec: {parallelism: 1}}`, "Running 0/1 "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := &batchv1.Job{}
			if err := yaml.UnmarshalStrict([]byte(tc.job), job); err != nil {
				t.Fatal(err)
			}
			cells := jobTable().Cells(job, now)
			if got := fmt.Sprint(cells[StatusColumn], " ", cells[2], " ", cells[3]); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	job := minimalJob(t, "j", "")
	create(job, "u1")
	job.CreationTimestamp = metav1.Time{Time: now.Add(-time.Hour)}
	cells := jobTable().Cells(job, now)
	if got := fmt.Sprint(cells[0], cells[4:]); got != "j[60m c registry.k8s.io/e2e-test-images/busybox:1.37.0-2 batch.kubernetes.io/controller-uid=u1]" {
		t.Error(got)
	}
	var names []string
	for _, c := range jobTable().Definitions() {
		names = append(names, fmt.Sprint(c.Name, c.Priority))
	}
	if got := strings.Join(names, " "); got != "Name0 Status0 Completions0 Duration0 Age0 Containers1 Images1 Selector1" {
		t.Error(got)
	}
}
