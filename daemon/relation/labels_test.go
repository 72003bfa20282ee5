package relation

import (
	"maps"
	"testing"
)

func TestLabels(t *testing.T) {
	for _, set := range []map[string]string{
		{}, {"app": "a"}, {"app": "", "z": "b"}, {"batch.kubernetes.io/job-completion-index": ""},
		{"app": "a", "batch.kubernetes.io/job-completion-index": "17", "z": "b"},
		{"batch.kubernetes.io/job-completion-index": "0"},
		{"batch.kubernetes.io/job-completion-index": "2147483647"},
		{"batch.kubernetes.io/job-completion-index": "017"},
		{"batch.kubernetes.io/job-completion-index": "-1"},
		{"batch.kubernetes.io/job-completion-index": "+1"},
		{"batch.kubernetes.io/job-completion-index": "first"},
		{"batch.kubernetes.io/job-name": "a", "job-name": "a", "batch.kubernetes.io/controller-uid": "b", "controller-uid": "b", "z": "a"},
		{"batch.kubernetes.io/job-name": "a", "job-name": "b"},
		{"batch.kubernetes.io/job-name": "", "job-name": ""},
		{"batch.kubernetes.io/job-name": ""},
		{"job-name": ""},
		{"controller-uid": "a", "batch.kubernetes.io/job-name": "a"},
	} {
		got := LabelsOf("ns", set)
		if !maps.Equal(got.Set(), set) || got.Namespace() != "ns" {
			t.Errorf("%v became %v of %s", set, got.Set(), got.Namespace())
		}
	}
	first, second := map[string]string{"a": "b", "c": "d"}, map[string]string{"c": "d", "a": "b"}
	if LabelsOf("ns", first) != LabelsOf("ns", second) {
		t.Error("the same labels differ")
	}
	if LabelsOf("ns", first) == LabelsOf("other", first) {
		t.Error("another namespace does not differ")
	}
}
