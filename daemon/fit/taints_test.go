package fit

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestExpelled(t *testing.T) {
	now := time.Unix(1000, 0).UTC()
	const taint = `[{key: k, value: v, effect: NoExecute, timeAdded: "1970-01-01T00:16:00Z"}]` // 40 s ago
	for rule, c := range map[string]struct {
		taints, tolerations string
		after               string // from now on; "never"
	}{
		"a pod leaves at once":                         {taint, `[]`, "0s"},
		"not for a taint that only keeps others away":  {`[{key: k, effect: NoSchedule}]`, `[]`, "never"},
		"one that tolerates it stays":                  {taint, `[{key: k, operator: Exists}]`, "never"},
		"also if it tolerates all":                     {taint, `[{operator: Exists}]`, "never"},
		"not if it tolerates another value":            {taint, `[{key: k, value: w}]`, "0s"},
		"for as long as it says, since the taint came": {taint, `[{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]`, "20s"},
		"which may be over":                            {taint, `[{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 10}]`, "-30s"},
		"which no pod lives to see": {
			taint, `[{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 9223372036854775807}]`, "2562047h46m36.854775807s",
		},
		"the first toleration counts": {
			taint, `[{key: k, operator: Exists}, {key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 10}]`, "never",
		},
		"the first taint that is not tolerated counts": {
			`[{key: k, effect: NoExecute, timeAdded: "1970-01-01T00:16:00Z"}, {key: l, effect: NoExecute}]`, `[{key: k, operator: Exists}]`,
			"0s",
		},
	} {
		t.Run(rule, func(t *testing.T) {
			var taints []corev1.Taint
			var tolerations []corev1.Toleration
			for manifest, into := range map[string]any{c.taints: &taints, c.tolerations: &tolerations} {
				if err := yaml.UnmarshalStrict([]byte(manifest), into); err != nil {
					t.Fatal(err)
				}
			}
			got := "never"
			if at, ok := Expelled(tolerations, taints, now); ok {
				got = at.Sub(now).String()
			}
			if got != c.after {
				t.Errorf("after %s, want %s", got, c.after)
			}
		})
	}
}
