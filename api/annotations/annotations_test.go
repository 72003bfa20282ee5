package annotations

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/jobd/jobd/api/openapi"
	"github.com/jobd/jobd/runtime/simulated"
)

// Each annotation that package api knows is explained at a type that is served.
func TestAllAreExplained(t *testing.T) {
	explained := map[string]bool{}
	models := Definitions(openapi.GetOpenAPIDefinitions)(func(path string) spec.Ref { return spec.MustCreateRef(path) })
	for name, all := range documented() {
		for _, a := range all {
			explained[a.name] = true
			if name == modelOfSetTemplates { // which is that of all templates of Jobs
				continue
			}
			if !strings.Contains(models[name].Schema.Description, "\n- "+a.name+": "+a.meaning) {
				t.Errorf("the model of %s does not explain %s", name, a.name)
			}
		}
	}
	constants := regexp.MustCompile(`Annotation\s*=\s*"(jobd\.dev/[a-z-]+)"`)
	found := 0
	for _, name := range []string{simulated.Duration, simulated.ExitCode} {
		if !explained[name] {
			t.Errorf("nothing explains %s of the simulated runtime", name)
		}
	}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range constants.FindAllStringSubmatch(string(source), -1) {
			if found++; !explained[m[1]] {
				t.Errorf("%s: nothing explains %s", path, m[1])
			}
		}
		return err
	})
	if err != nil || found < 10 {
		t.Errorf("%d annotations were found: %v", found, err)
	}
}

// The models of other types stay as they are.
func TestNothingElseChanges(t *testing.T) {
	ref := func(path string) spec.Ref { return spec.MustCreateRef(path) }
	var get common.GetOpenAPIDefinitions = openapi.GetOpenAPIDefinitions
	before, after := get(ref), Definitions(get)(ref)
	if len(before) != len(after) {
		t.Errorf("%d models instead of %d", len(after), len(before))
	}
	for name := range before {
		if _, ok := documented()[name]; !ok && before[name].Schema.Description != after[name].Schema.Description {
			t.Errorf("the model of %s has changed", name)
		}
	}
}
