package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// crashes is the page that says what came of a kill at each crash point.
const crashes = "daemon/e2e/CRASHES.md"

// TestEveryCrashPointHasARow holds the crash points of the source against the tables of CRASHES.md. What a round of the matrix passes
// that has no row, TestCrashMatrix finds.
func TestEveryCrashPointHasARow(t *testing.T) {
	page, err := os.ReadFile(crashes)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{} // whether the source has the point
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z][^ |]*\.[^|]*) \|`).FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = false
	}
	for point, where := range crashPoints(t) {
		found := false
		for row := range rows {
			if point.MatchString(row) {
				found, rows[row] = true, true
			}
		}
		if !found {
			t.Errorf("%s: no row of %s is about %s: let a scenario of daemon/e2e/crash_scenarios_test.go pass it, and say what came of it",
				where, crashes, strings.ReplaceAll(strings.Trim(point.String(), "^$"), `\.`, "."))
		}
	}
	for row, is := range rows {
		if !is {
			t.Errorf("%s has a row for %s, which is no crash point any more", crashes, row)
		}
	}
}

// crashPoints returns what the names of the crash points look like, and where they are. A part of a name that is not a constant may be
// anything.
func crashPoints(t *testing.T) map[*regexp.Regexp]string {
	points, files := map[*regexp.Regexp]string{}, token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || path == ".":
			return err
		case entry.IsDir() && (path == "testdata" || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || types.ExprString(call.Fun) != "crash.At" {
				return true
			}
			var parts []string
			for _, arg := range call.Args {
				part := ".+"
				if literal, ok := arg.(*ast.BasicLit); ok {
					if text, err := strconv.Unquote(literal.Value); err == nil {
						part = regexp.QuoteMeta(text)
					}
				}
				parts = append(parts, part)
			}
			points[regexp.MustCompile("^"+strings.Join(parts, `\.`)+"$")] = files.Position(call.Pos()).String()
			return true
		})
		return nil
	})
	if err != nil || len(points) < 50 {
		t.Fatal(len(points), "crash points were found", err)
	}
	return points
}
