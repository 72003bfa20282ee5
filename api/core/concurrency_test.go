package core

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestConcurrencyAnnotations(t *testing.T) {
	annotations := func(group, limit, policy string) map[string]string {
		all := map[string]string{}
		for name, value := range map[string]string{
			ConcurrencyGroupAnnotation: group, ConcurrencyLimitAnnotation: limit, ConcurrencyPolicyAnnotation: policy,
		} {
			if value != "" {
				all[name] = value
			}
		}
		return all
	}
	for _, c := range []struct {
		name                 string
		group, limit, policy string
		of                   Concurrency // of a Job, if it is valid
		ofAll                Concurrency // of the Jobs of the namespace team
		refused, refusedOfNs string
	}{
		{name: "none"},
		{name: "a group", group: "db", of: Concurrency{"db", 1, QueueConcurrent}, ofAll: Concurrency{"db", 1, QueueConcurrent}},
		{name: "all", group: "db", limit: "3", policy: "Replace", of: Concurrency{"db", 3, "Replace"}, ofAll: Concurrency{"db", 3, "Replace"}},
		{name: "a limit alone", limit: "2", ofAll: Concurrency{"team", 2, QueueConcurrent}, refused: "group]: Required"},
		{name: "a limit and a policy", limit: "2", policy: "Forbid", ofAll: Concurrency{"team", 2, "Forbid"}, refused: "group]: Required"},
		{name: "a policy alone", policy: "Forbid", refused: "group]: Required", refusedOfNs: "group]: Required"},
		{name: "no number", group: "db", limit: "many", refused: "[jobd.dev/concurrency-limit]", refusedOfNs: "[jobd.dev/concurrency-limit]"},
		{name: "nobody at all", group: "db", limit: "0", refused: "from 1 to 1000", refusedOfNs: "from 1 to 1000"},
		{name: "too many", group: "db", limit: "1001", refused: "from 1 to 1000", refusedOfNs: "from 1 to 1000"},
		{name: "no policy", group: "db", policy: "Allow", refused: "[jobd.dev/concurrency-policy]: Unsupported", refusedOfNs: "Unsupported"},
		{name: "no name", group: "d b", refused: "[jobd.dev/concurrency-group]: Invalid", refusedOfNs: "[jobd.dev/concurrency-group]: Invalid"},
	} {
		given := annotations(c.group, c.limit, c.policy)
		for ofNamespace, want := range map[bool]string{false: c.refused, true: c.refusedOfNs} {
			err := ValidateConcurrency(given, field.NewPath("metadata", "annotations"), ofNamespace).ToAggregate()
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, of a namespace %v: %v", c.name, ofNamespace, err)
			}
		}
		if got, ok := ConcurrencyOf(given); c.refused == "" && (got != c.of || ok != (c.of != Concurrency{})) {
			t.Errorf("%s: %+v %v", c.name, got, ok)
		}
		if got, ok := NamespaceConcurrency("team", given); c.refusedOfNs == "" && (got != c.ofAll || ok != (c.ofAll != Concurrency{})) {
			t.Errorf("%s of a namespace: %+v %v", c.name, got, ok)
		}
		if c.refused != "" {
			if got, ok := ConcurrencyOf(given); ok {
				t.Errorf("%s: %+v though it is refused", c.name, got)
			}
		}
	}
}
