package quantity

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestParse(t *testing.T) {
	for _, text := range []string{
		"0", "1", "500m", "1.5", "4Gi", "-3", "+2k", "1e3", "1E9", "12e6", "100E", "8Ei", "9223372036854775807", "1e100", "1e-100", "1e-0000000003",
		"1e30", "1e400", "-1e400", "1e-400", "12345678901234567890e400",
		"9223372036854775807.999999999", "0.000000001", ".5", "1.", "2n", strings.Repeat("9", MaxLength),
	} {
		want, wrong := resource.ParseQuantity(text)
		got, err := Parse(text)
		if wrong != nil || err != nil || got.Cmp(want) != 0 {
			t.Errorf("%s is %s %v, not %s %v", text, &got, err, &want, wrong)
		}
	}
	for _, text := range []string{"", "a", "1 Gi", "1e", "1ee3", "4GB", "--1"} {
		_, want := resource.ParseQuantity(text)
		if _, err := Parse(text); want == nil || err == nil || err.Error() != want.Error() {
			t.Errorf("%q: %v, not %v", text, err, want)
		}
	}
}

func TestWhatIsTooLarge(t *testing.T) {
	for _, text := range []string{
		"1e-2000000000", "1E2000000000", "1e+401", "-5e-401", "1e-0000000000000401", "1e99999999999999999999999", " 1e-2000000000 ",
		strings.Repeat("1", MaxLength+1), "0." + strings.Repeat("0", 3_000_000) + "1", "1e" + strings.Repeat("9", 3_000_000),
	} {
		began := time.Now()
		if q, err := Parse(text); err == nil {
			t.Errorf("%.50s is %s", text, &q)
		}
		if !Suspect([]byte(`{"memory": "` + text + `"}`)) {
			t.Errorf("%.50s is not suspect", text)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%.50s took %v", text, took)
		}
	}
	for _, body := range []string{
		"", `{"metadata": {"uid": "4e12a3f0-8b1d-4c5e-99e1-1234567890ab"}}`, `{"memory": "1e400", "cpu": 12345678901234567890}`,
		`{"name": "ae2000000"}`, `1e`, `1e-`, `\`,
	} {
		if Suspect([]byte(body)) {
			t.Errorf("%s is suspect", body)
		}
	}
}

// FuzzParse looks for a text that takes long, or that is suspect only here.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"1e-100", "1.1e101", "0x1p9", "1e1e1000", "e101", "-e-101"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<10 {
			return
		}
		began := time.Now()
		_, err := Parse(text)
		if took := time.Since(began); took > time.Second {
			t.Errorf("%q took %v: %v", text, took, err)
		}
		if Suspect([]byte(text)) {
			return
		}
		if _, err := resource.ParseQuantity(text); err == nil && Check(text) != nil {
			t.Errorf("%q is a quantity that must not be parsed, and is not suspect", text)
		}
	})
}

// TestNobodyElseParses looks for calls of the library's parser in all of jobd.
func TestNobodyElseParses(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != "../.." {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == "../../internal/quantity/quantity.go" ||
			strings.HasSuffix(filepath.Dir(path), "test") { // what makes objects for tests
			return nil
		}
		files++
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		library := ""
		for _, i := range parsed.Imports {
			if i.Path.Value == `"k8s.io/apimachinery/pkg/api/resource"` {
				if library = "resource"; i.Name != nil {
					library = i.Name.Name
				}
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			called, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, ok := called.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, ok := name.X.(*ast.Ident)
			if !ok || of.Name != library {
				return true
			}
			constant := false
			if len(called.Args) == 1 {
				_, constant = called.Args[0].(*ast.BasicLit)
			}
			if name.Sel.Name == "ParseQuantity" || name.Sel.Name == "MustParse" && !constant {
				t.Errorf("%s: use quantity.Parse", set.Position(called.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil || files < 500 {
		t.Error(files, err)
	}
}
