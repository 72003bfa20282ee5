package repository

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jobd/jobd/runtime/logs"
)

// TestPatternsOfShippers tries the regular expressions of docs/shippers on what jobd writes. They are in the syntaxes of several
// libraries; what they use means the same in all.
func TestPatternsOfShippers(t *testing.T) {
	const path = "/var/lib/jobd/logs/team-a_report-x7k2p_0b6c2a54-5d1c-4b0e-9a55-2a6d3a0c9d11/main/12.log"
	var record bytes.Buffer
	out := logs.NewWriter(&record, &logs.Buffers{}).Stream(logs.Stderr)
	if _, err := out.Write([]byte(" a line with _ and / in it\n")); err != nil {
		t.Fatal(err)
	}
	wantPath := map[string]string{"namespace": "team-a", "pod": "report-x7k2p", "container": "main", "attempt": "12"}
	wantRecord := map[string]string{"stream": "stderr", "part": "F", "message": " a line with _ and / in it"}

	quoted := regexp.MustCompile("r?'([^'\n]*)'|`([^`\n]*)`|\"((?:[^\"\\\\\n]|\\\\.)*)\"")
	files, err := filepath.Glob("docs/shippers/*.*")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if filepath.Ext(file) == ".md" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "/var/lib/jobd/logs/*/*/*.log") {
			t.Errorf("%s does not read the logs", file)
		}
		found := false
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			pattern := m[1] + m[2] + strings.ReplaceAll(m[3], `\\`, `\`)
			var on string
			var want map[string]string
			switch {
			case strings.HasPrefix(pattern, "/logs/("):
				on, want, found = path, wantPath, true
			case strings.HasPrefix(pattern, "^("):
				on, want = strings.TrimSuffix(record.String(), "\n"), wantRecord
			default:
				continue
			}
			re, err := regexp.Compile(pattern)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			for _, suffix := range []string{"", ".20260102-150405.000000000-1048576"} {
				if on != path && suffix != "" {
					continue
				}
				match := re.FindStringSubmatch(on + suffix)
				if match == nil {
					t.Errorf("%s: %s does not match %s", file, pattern, on+suffix)
					continue
				}
				got := map[string]string{}
				names := re.SubexpNames()
				if filepath.Ext(file) == ".conf" { // whose groups have numbers only
					names = strings.Fields("whole namespace pod container attempt")
					if on != path {
						names = strings.Fields("whole time stream part message")
					}
				}
				for i, name := range names {
					if _, wanted := want[name]; wanted {
						got[name] = match[i]
					}
				}
				if !maps.Equal(got, want) {
					t.Errorf("%s: %s finds %v in %s, want %v", file, pattern, got, on, want)
				}
			}
		}
		if !found {
			t.Errorf("%s has no pattern for the path", file)
		}
	}
}
