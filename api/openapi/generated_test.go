package openapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const file = "zz_generated.openapi.go"

// The generator's own files are read here too, so that a cached result of this test is of no other generator.
func TestModelsAreUpToDate(t *testing.T) {
	for _, input := range []string{"generate.sh", "generator/go.mod", "generator/go.sum"} {
		read(t, input)
	}
	dir := t.TempDir()
	if out, err := exec.Command("./generate.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("generate.sh: %v\n%s", err, out)
	}
	if diff := cmp.Diff(read(t, file), read(t, filepath.Join(dir, file))); diff != "" {
		t.Errorf("%s is stale, run make generate: -as it is +as generated\n%s", file, diff)
	}
}

// The generator is a module of its own and could read another version of the types than jobd serves.
func TestGeneratorReadsTheServedVersion(t *testing.T) {
	versions := func(mod string) map[string]string {
		found := map[string]string{}
		required := regexp.MustCompile(`(?m)^\s*(k8s\.io/(?:api|apimachinery|kube-openapi|metrics)) (\S+)`)
		for _, m := range required.FindAllStringSubmatch(read(t, mod), -1) {
			found[m[1]] = m[2]
		}
		return found
	}
	served := versions("../../go.mod")
	if len(served) != 4 {
		t.Fatalf("go.mod requires only %v of what the models are generated from", served)
	}
	if diff := cmp.Diff(served, versions("generator/go.mod")); diff != "" {
		t.Errorf("-go.mod +generator/go.mod\n%s", diff)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
