package kueue

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Whatever a manager of a later version writes is still there after the worker has written its conditions.
func TestTheRestOfAStatusIsKept(t *testing.T) {
	for _, status := range []string{``, `null`, `{"admission":{"clusterQueue":"q"},"x":1,"conditions":[]}`} {
		w := &Workload{Spec: Raw(`{"later":[1]}`), Status: Raw(status)}
		if err := SetConditions(w, []metav1.Condition{{Type: Admitted, Status: metav1.ConditionTrue}}); err != nil {
			t.Fatal(err)
		}
		if got := Conditions(w); len(got) != 1 || got[0].Type != Admitted {
			t.Errorf("%s: the conditions are %v", status, got)
		}
		if strings.Contains(status, "admission") && !strings.Contains(string(w.Status), `"admission":{"clusterQueue":"q"}`) {
			t.Errorf("%s has become %s", status, w.Status)
		}
	}
}

func TestValidation(t *testing.T) {
	for name, c := range map[string]struct{ spec, status, want string }{
		"anything":                   {`{"later": {"a": [1]}}`, `{"later": 1, "conditions": []}`, ""},
		"no spec":                    {``, ``, "spec: Required"},
		"a spec that is no object":   {`[]`, ``, "spec: Required"},
		"a status that is no object": {`{}`, `"x"`, "status: Invalid"},
		"conditions of other types":  {`{}`, `{"conditions": {"a": 1}}`, "status: Invalid"},
		"a condition without reason": {`{}`, `{"conditions": [{"type": "Admitted", "status": "True"}]}`, "status.conditions[0].lastTransitionTime"},
	} {
		w := &Workload{ObjectMeta: metav1.ObjectMeta{Name: "job-a", Namespace: "default"}, Spec: Raw(c.spec), Status: Raw(c.status)}
		err := ""
		if all := validate(w).ToAggregate(); all != nil {
			err = all.Error()
		}
		if !strings.Contains(err, c.want) || (c.want == "") != (err == "") {
			t.Errorf("%s: %s", name, err)
		}
	}
}

func TestRawHasAValue(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"spec": {"a": [1, "b", null, 1.5]}, "status": {}}`: true, `{"spec": {"a": 1e999}}`: false,
		`{"status": {"a": [{"b": -1e400}]}}`: false, `{"spec": 1e999}`: false,
	} {
		if err := json.Unmarshal([]byte(text), &Workload{}); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
