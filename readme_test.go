package jobd_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryPackageIsInTheREADME holds the table of packages in README.md against the directories with Go files.
func TestEveryPackageIsInTheREADME(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"testdata": true, "api/openapi/generator": true} // neither is a package of the program
	_, table, _ := strings.Cut(string(readme), "| package | what it is for |")
	table, _, _ = strings.Cut(table, "\n## ")
	for row := range strings.Lines(table) {
		for _, dir := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(strings.SplitN(row+"||", "|", 3)[1], -1) {
			listed[dir[1]] = true
			if _, err := os.Stat(dir[1]); err != nil {
				t.Errorf("README.md lists a package that is gone: %v", err)
			}
		}
	}
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || path == ".":
			return err
		case entry.IsDir() && (path == "testdata" || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case filepath.Ext(path) == ".go" && filepath.Dir(path) != "." && !listed[filepath.Dir(path)]:
			t.Errorf("add a row for %s to the table of packages in README.md", filepath.Dir(path))
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
