package manifests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const cronJob = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec: {schedule: '@daily'}\n"

func onceOf(command string) string {
	return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec:\n  parallelism: 1\n" + command
}

// A file that is written slowly removes nothing and starts nothing until it has been as it is for ten seconds.
func TestAFileThatIsWritten(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	config := fmt.Sprintf(configMap, "a") + "---\n"
	known := []Record{{Ref: conf("a"), File: "f"}, {Ref: job("once"), File: "f"}}
	type step struct {
		after   time.Duration // since the one before
		text    string        // empty: the file is gone
		written bool
		wanted  string
		gone    string
	}
	const whole = "ConfigMap a, Job once"
	full := config + onceOf("  backoffLimit: 1\n")
	for rule, steps := range map[string][]step{
		"as it was at the start": {{0, full, false, whole, ""}},
		"a document that has gone": {
			{0, full, false, whole, ""},
			{time.Minute, config, false, "ConfigMap a", ""}, {10 * time.Second, config, false, "ConfigMap a", "Job once"},
		},
		"one that is written again": {
			{0, full, false, whole, ""},
			{time.Minute, config, false, "ConfigMap a", ""}, {9 * time.Second, full, false, "ConfigMap a", ""}, {time.Hour, full, false, whole, ""},
		},
		"one that is cut, and still valid": {
			{0, full, false, whole, ""},
			{time.Minute, config + onceOf(""), false, "ConfigMap a", ""}, {10 * time.Second, config + onceOf(""), false, whole, ""},
		},
		"a document with its end": {{0, full, false, whole, ""}, {time.Minute, full + "---\n", false, whole, ""}},
		"a writer who takes his time": {
			{0, full, false, whole, ""}, {time.Minute, config, true, "ConfigMap a", ""}, {time.Hour, config, true, "ConfigMap a", ""},
			{time.Hour, full, false, "ConfigMap a", ""}, {time.Minute, full, false, whole, ""},
		},
		"a file that goes": {{0, full, false, whole, ""}, {time.Second, "", false, "", "Job once, ConfigMap a"}},
	} {
		t.Run(rule, func(t *testing.T) {
			w, now := watch{}, start
			other := File{Name: "other", Stamp: Stamp{Inode: 7, Changed: start.Add(-time.Hour)}}
			for i, s := range steps {
				now = now.Add(s.after)
				files := []File{other}
				if s.text != "" {
					all, err := parse("f", []byte(s.text))
					f := File{Name: "f", Objects: all, Err: err, Written: s.written, Stamp: Stamp{Size: int64(len(s.text)), Changed: start.Add(-time.Hour)}}
					files = append(files, f)
				}
				again, problems := w.look(files, now)
				wanted, gone, _ := Plan(files, known)
				var names, going []string
				for _, o := range wanted {
					names = append(names, o.Kind+" "+o.Name)
				}
				for _, r := range gone {
					going = append(going, r.Kind+" "+r.Name)
				}
				if got := strings.Join(names, ", "); got != s.wanted {
					t.Errorf("step %d: wanted %q, want %q", i, got, s.wanted)
				}
				if got := strings.Join(going, ", "); got != s.gone {
					t.Errorf("step %d: gone %q, want %q", i, got, s.gone)
				}
				moving := len(files) > 1 && files[1].Moving
				if moving != (again > 0) || again > still || (len(problems) > 0) != (s.written && s.after > time.Minute) {
					t.Errorf("step %d: again in %v, moving %v, problems %v", i, again, moving, problems)
				}
			}
		})
	}
}

// What has gone from one file may be in another that is being written.
func TestAMoveToAFileThatIsWritten(t *testing.T) {
	known := []Record{{Ref: job("once"), File: "a"}}
	for rule, c := range map[string]struct {
		other File
		want  int
	}{
		"that is whole":         {File{Name: "b"}, 1},
		"that is being written": {File{Name: "b", Moving: true}, 0},
		"that cannot be read":   {File{Name: "b", Err: errors.New("x")}, 0},
	} {
		if _, gone, _ := Plan([]File{c.other}, known); len(gone) != c.want {
			t.Errorf("%s: %d are removed", rule, len(gone))
		}
	}
}

// A program that has a file open for writing is seen, and one that reads it is not.
func TestWriters(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(path, []byte(cronJob), 0o644); err != nil {
		t.Fatal(err)
	}
	see := func() File {
		t.Helper()
		files, err := read(dir, uint32(os.Geteuid()))
		if err != nil || len(files) != 1 || files[0].Err != nil {
			t.Fatal(files, err)
		}
		return files[0]
	}
	first := see()
	if reader, err := os.Open(path); err != nil {
		t.Fatal(err)
	} else {
		defer reader.Close()
	}
	if again := see(); again.Written || again.Stamp != first.Stamp || !slices.ContainsFunc(again.Objects, func(o Object) bool { return o.AtEnd }) {
		t.Errorf("%+v, and before %+v", again, first)
	}
	writer, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteString("---\n"); err != nil {
		t.Fatal(err)
	}
	if f := see(); !f.Written || f.Stamp == first.Stamp {
		t.Errorf("with a writer: %+v", f)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if f := see(); f.Written {
		t.Error("a writer that is gone is seen")
	}
}
