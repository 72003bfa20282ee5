package repository

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// packages is the page that lists all packages.
const packages = "docs/how-it-works.md"

// TestEveryPackageIsInTheTable holds the table of packages in docs/how-it-works.md against the directories with Go files.
func TestEveryPackageIsInTheTable(t *testing.T) {
	page, err := os.ReadFile(packages)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"testdata": true, "api/openapi/generator": true} // neither is a package of the program
	_, table, _ := strings.Cut(string(page), "| package | what it is for |")
	table, _, _ = strings.Cut(table, "\n## ")
	for row := range strings.Lines(table) {
		for _, dir := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(strings.SplitN(row+"||", "|", 3)[1], -1) {
			listed[dir[1]] = true
			if _, err := os.Stat(dir[1]); err != nil {
				t.Errorf("%s lists a package that is gone: %v", packages, err)
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
			t.Errorf("add a row for %s to the table of packages in %s", filepath.Dir(path), packages)
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLinks follows every link between the Markdown files of the repository, to the heading where it names one.
func TestLinks(t *testing.T) {
	pages := map[string]string{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (path == "dist" || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		content, err := os.ReadFile(path)
		pages[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range pages {
		for _, link := range regexp.MustCompile(`\]\(([^)\s]*)\)`).FindAllStringSubmatch(withoutCode(content), -1) {
			target, heading, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", path, link[1], err)
			} else if heading != "" && !slices.Contains(anchors(pages[to]), heading) {
				t.Errorf("%s links to %s: %s has no such heading", path, link[1], to)
			}
		}
	}
}

// withoutCode returns a page without its code, which may hold what looks like a link.
func withoutCode(page string) string {
	page = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(page, "")
	page = regexp.MustCompile("(?m)^    .*$").ReplaceAllString(page, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(page, "")
}

// anchors returns what GitHub makes of the headings of a page.
func anchors(page string) (all []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		anchor := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading[1])), " ", "-")
		all = append(all, regexp.MustCompile(`[^\pL\pN_-]`).ReplaceAllString(anchor, ""))
	}
	return all
}

// TestEveryExampleIsInThePage holds docs/jobs-by-example.md against the manifests in testdata/examples.
func TestEveryExampleIsInThePage(t *testing.T) {
	page, err := os.ReadFile("docs/jobs-by-example.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadDir("testdata/examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		if !strings.Contains(string(page), "(../testdata/examples/"+e.Name()+")") {
			t.Errorf("docs/jobs-by-example.md does not show %s", e.Name())
		}
	}
}

// TestExamplesNameATag looks through the manifests and pages that people copy. An image without a tag is tagged latest, for
// which the registry is asked each time, also when the image was imported.
func TestExamplesNameATag(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/examples/*.yaml", "docs/*.md", "*.md", "api/dashboard/page/*.js"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	named := regexp.MustCompile(`(?:[ {]image: *"?|jobctl (?:submit|debug|run) [^|]*--image[ =])([a-z0-9][a-z0-9./:@-]*)`)
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			count++
			base := m[1][strings.LastIndex(m[1], "/")+1:]
			if _, tag, ok := strings.Cut(base, ":"); !ok || tag == "latest" {
				t.Errorf("%s: %q has no tag", file, m[0])
			}
		}
	}
	if count < 30 {
		t.Errorf("found only %d images", count)
	}
}
