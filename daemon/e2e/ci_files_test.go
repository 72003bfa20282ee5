package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestCIFiles runs what docs/ci.md has to copy for GitLab and GitHub as their runners do, as a user without root: the lines of the file
// in one shell, which stops at the first that fails, in a checkout.
func TestCIFiles(t *testing.T) {
	t.Parallel()
	files := map[string]func([]byte) ([]string, error){
		"GITLAB_CI": func(file []byte) ([]string, error) {
			var pipeline struct {
				Test struct{ Script []string }
			}
			err := yaml.Unmarshal(file, &pipeline)
			return pipeline.Test.Script, err
		},
		"GITHUB_ACTIONS": func(file []byte) (lines []string, err error) {
			var workflow struct {
				Jobs struct {
					Test struct{ Steps []struct{ Run string } }
				}
			}
			err = yaml.Unmarshal(file, &workflow)
			for _, step := range workflow.Jobs.Test.Steps {
				lines = append(lines, step.Run)
			}
			return lines, err
		},
	}
	x := newTeam(t)
	alice := x.alice
	run := func(system string, lines []string, test string) (string, error) {
		t.Helper()
		script := strings.ReplaceAll(strings.Join(lines, "\n"), "python:3.13", "busybox:1.36")
		script = "set -eu; export PATH=" + bin + ":$PATH " + system + "=true; mkdir -p ci; cat >ci/test.sh <<'EOF'\n" + test + "\nEOF\n" + script
		return alice.try("", "bash", "-c", script)
	}
	for _, block := range blocksOf(t, "../../docs/ci.md") {
		if block.language != "yaml" {
			continue
		}
		system := "GITLAB_CI"
		if strings.Contains(block.code, ".github/workflows") {
			system = "GITHUB_ACTIONS"
		}
		t.Run(system, func(t *testing.T) {
			lines, err := files[system]([]byte(block.code))
			if err != nil {
				t.Fatal(err)
			}
			junit := filepath.Join(alice.home, "junit.xml")
			if out, err := run(system, lines, "id -u; pwd; touch made"); err != nil || !strings.Contains(out, "\n"+alice.home+"\n") {
				t.Errorf("%v: %s", err, out)
			}
			if text, err := os.ReadFile(junit); err != nil || !bytes.Contains(text, []byte(`failures="0"`)) {
				t.Errorf("%v: %s", err, text)
			}
			out, err := run(system, lines, "echo seven is not eight; exit 7")
			if err == nil || err.Error() != "exit status 7" {
				t.Errorf("%v: %s", err, out)
			}
			if text, err := os.ReadFile(junit); err != nil || !bytes.Contains(text, []byte("seven is not eight")) {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}
