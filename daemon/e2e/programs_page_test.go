package e2e

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// programsPage is the page of the programs that work, and of those that do not.
func programsPage(t *testing.T) (works, doesNot string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/programs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, works, _ = strings.Cut(string(page), "\n## What works\n")
	works, doesNot, _ = strings.Cut(works, "\n## What does not\n")
	return works, doesNot
}

// TestProgramsPage holds the page against the tests: it has a section for each program that is tested, in the order of names, and
// for nothing else, and says which are replayed.
func TestProgramsPage(t *testing.T) {
	works, _ := programsPage(t)
	tested := slices.Concat([]string{"Helm"}, slices.Collect(maps.Keys(launchers)), slices.Collect(maps.Keys(tools)))
	slices.SortFunc(tested, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	var described []string
	for _, section := range strings.Split(works, "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		described = append(described, name)
		source, _ := os.ReadFile("../../testdata/clients/" + launchers[name].file)
		if said, is := strings.Contains(text, "*Replayed"), strings.Contains(string(source), "Replays "); said != is {
			t.Errorf("the page says of %s that it is replayed: %v, its test says %v", name, said, is)
		}
		for _, code := range regexp.MustCompile("(?s)```[a-z]*\n(.*?)```").FindAllStringSubmatch(text, -1) {
			if lines := strings.Count(code[1], "\n"); lines > 3 {
				t.Errorf("%s needs %d lines", name, lines)
			}
		}
	}
	if !slices.Equal(described, tested) {
		t.Errorf("the page has sections for\n%q, tested are\n%q", described, tested)
	}
}

// TestProgramsThatNeedOtherKinds creates what each program of the page's last table would, which jobctl must refuse by name.
func TestProgramsThatNeedOtherKinds(t *testing.T) {
	t.Parallel()
	d := start(t)
	_, table := programsPage(t)
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([A-Z]\w+) \| ([a-z0-9./]+) \|`).FindAllStringSubmatch(table, -1)
	if len(rows) == 0 {
		t.Fatal("the table is gone")
	}
	for _, row := range rows {
		program, kind, version := row[1], row[2], row[3]
		group, _, _ := strings.Cut(version, "/")
		manifest := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: x}\n", version, kind)
		out, err := d.try("jobctl", []byte(manifest), "apply", "-f", "-")
		if want := fmt.Sprintf("does not have the kind %s (%s)", kind, group); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v %s", program, err, out)
		}
	}
}
