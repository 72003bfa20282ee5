package main

import (
	"slices"
	"testing"
)

// Words of people for the end of a Job are conditions of JobSets too, of which the good end has another name.
func TestConditionsOfJobSets(t *testing.T) {
	for given, want := range map[string]string{
		"complete": "condition=Completed", "completed": "condition=Completed", "condition=Complete": "condition=Completed",
		"condition=complete=true": "condition=Completed=true", "condition=Completed": "condition=Completed", "failed": "condition=Failed",
		"done": finished, "delete": "delete", "jsonpath={.status.restarts}=1": "jsonpath={.status.restarts}=1",
	} {
		if got := ofSets(ofJobs([]string{given})); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, want %s", given, got, want)
		}
	}
	for args, want := range map[string]string{"jobsets/train": "train", "jobset.jobset.x-k8s.io/train": "train", "jobs/train": "", "jobsets": ""} {
		if name, ok := setNamed([]string{args}); ok != (want != "") || ok && name != want {
			t.Errorf("%s: %q, %t", args, name, ok)
		}
	}
}
