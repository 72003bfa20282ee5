package jobset

import (
	"fmt"
	"slices"
	"testing"

	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

func TestWhatGroupsWaitFor(t *testing.T) {
	status := []jobsetv1.ReplicatedJobStatus{{Name: "a", Ready: 1, Failed: 1}, {Name: "b", Ready: 1, Succeeded: 1}}
	on := func(name string, status jobsetv1.DependsOnStatus) jobsetv1.DependsOn {
		return jobsetv1.DependsOn{Name: name, Status: status}
	}
	depends := func(on ...jobsetv1.DependsOn) *jobsetv1.JobSet {
		js := &jobsetv1.JobSet{Status: jobsetv1.JobSetStatus{ReplicatedJobsStatus: status}}
		js.Spec.ReplicatedJobs = []jobsetv1.ReplicatedJob{
			{Name: "a", Replicas: 2}, {Name: "b", Replicas: 3}, {Name: "c", Replicas: 1, DependsOn: on},
		}
		return js
	}
	inOrder := depends()
	inOrder.Spec.StartupPolicy = &jobsetv1.StartupPolicy{StartupPolicyOrder: jobsetv1.InOrder}
	for name, tc := range map[string]struct {
		of   *jobsetv1.JobSet
		want []string // of each group what it waits for, and whether that is so
	}{
		"nothing": {of: depends(), want: []string{"", "", ""}},
		"ready": {of: depends(on("a", jobsetv1.DependencyReady)), want: []string{
			"", "", "until all Jobs of a are ready: 2 of 2 are. true;",
		}},
		"complete": {of: depends(on("b", jobsetv1.DependencyComplete)), want: []string{
			"", "", "until all Jobs of b are complete: 1 of 3 are. false;",
		}},
		"no such": {of: depends(on("x", jobsetv1.DependencyReady)), want: []string{
			"", "", "until all Jobs of x are ready: 0 of 0 are. false;",
		}},
		"in order": {of: inOrder, want: []string{
			"", "until all Jobs of a are ready: 2 of 2 are. (startupPolicy InOrder) true;",
			"until all Jobs of b are ready: 2 of 3 are. (startupPolicy InOrder) false;",
		}},
	} {
		var got []string
		for _, all := range Dependencies(tc.of) {
			said := ""
			for _, d := range all {
				said += fmt.Sprint(d.Words(), " ", d.Met(), ";")
			}
			got = append(got, said)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	// With InOrder all groups wait for the first that has not begun.
	inOrder.Status.ReplicatedJobsStatus = nil
	if got := Dependencies(inOrder)[2][0].On; got != "a" {
		t.Errorf("c waits for %s", got)
	}
}
