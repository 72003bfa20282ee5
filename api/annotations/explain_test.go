package annotations

import (
	"strings"
	"testing"
)

// Each annotation of each type is explained, with an example, and where it stands.
func TestExplain(t *testing.T) {
	var out strings.Builder
	if err := Explain(&out); err != nil {
		t.Fatal(err)
	}
	places := map[string]bool{}
	for _, s := range standing {
		places[s.model] = true
	}
	for model, all := range documented() {
		if !places[model] {
			t.Errorf("nothing says where an annotation of %s stands", model)
		}
		for _, a := range all {
			example, ok := examples[a.name]
			if !ok || strings.ContainsAny(example, "`\n") {
				t.Errorf("%s has no example that can be shown: add one to examples", a.name)
			}
			if !strings.Contains(out.String(), "\n"+a.name+": ") {
				t.Errorf("%s is not explained", a.name)
			}
		}
	}
	for name := range examples {
		if !strings.Contains(out.String(), "\n"+name+": ") {
			t.Errorf("there is an example of %s, and no such annotation", name)
		}
	}
	const want = `
jobd.dev/backoff-base: "500ms"
  of a Job; CronJob, in spec.jobTemplate; JobSet, in spec.replicatedJobs[].template
  The wait after the first failure of a pod, `
	if !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in\n%s", want, out.String())
	}
}
