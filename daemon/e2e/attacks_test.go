package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAttacksAreTests checks that each test that ATTACKS.md names exists.
func TestAttacksAreTests(t *testing.T) {
	if _, err := os.Stat("../../go.mod"); err != nil {
		t.Skip("needs the sources")
	}
	page, err := os.ReadFile("ATTACKS.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	if err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range function.FindAllStringSubmatch(string(source), -1) {
			found[m[1]] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(page), -1)
	if len(names) < 40 {
		t.Errorf("only %d tests are named", len(names))
	}
	for _, m := range names {
		if !found[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
}
