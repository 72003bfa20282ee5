package auditlog

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // it has whole events of what cannot be written
	m.Run()
}

const allMetadata = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"

// options write a policy, and name a log beside it.
func options(t *testing.T, policy string) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{PolicyFile: filepath.Join(dir, "policy.yaml"), Path: filepath.Join(dir, "logs", "audit.log"), Format: "json", Mode: ModeBlocking, MaxSize: 1}
	if err := os.WriteFile(o.PolicyFile, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestABrokenPolicyIsRefused(t *testing.T) {
	const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
	for _, tc := range []struct{ name, policy, says string }{
		{"nothing in it", "", "audit-policy-file"},
		{"no YAML", "rules: [", "audit-policy-file"},
		{"no rules", head, "0 rules"},
		{"another kind", "apiVersion: v1\nkind: Pod\n", "Pod"},
		{"another version", strings.Replace(allMetadata, "v1", "v1beta1", 1), "v1beta1"},
		{"a level that is not known", head + "rules:\n- level: All\n", `rules[0].level: Unsupported value: "All"`},
		{"no level", head + "rules:\n- verbs: [get]\n", "rules[0].level: Required value"},
		{"a field that is not known", head + "rules:\n- level: None\n  user: [me]\n", `unknown field "rules[0].user"`},
		{"a field that comes twice", head + "rules:\n- level: None\n  level: Metadata\n", `"level" already set`},
		{"a stage that is not known", head + "omitStages: [End]\nrules:\n- level: None\n", "omitStages[0]"},
		{"paths of resources", head + "rules:\n- level: None\n  nonResourceURLs: [/a]\n  namespaces: [b]\n", "rules[0].nonResourceURLs"},
	} {
		o := options(t, tc.policy)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), o.PolicyFile) {
			t.Errorf("%s: %v does not say %s", tc.name, err, tc.says)
		}
		if _, err := Open(o); err == nil {
			t.Errorf("%s: it is opened", tc.name)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		name, says string
		edit       func(*Options)
	}{
		{"all of them", "", func(*Options) {}},
		{"off", "", func(o *Options) { o.PolicyFile, o.Path = "", "" }},
		{"no path", "audit-log-path", func(o *Options) { o.Path = "" }},
		{"no policy", "audit-policy-file", func(o *Options) { o.PolicyFile = "" }},
		{"a policy that is not there", "no such file", func(o *Options) { o.PolicyFile += "x" }},
		{"another format", `audit-log-format: "yaml"`, func(o *Options) { o.Format = "yaml" }},
		{"another mode", `audit-log-mode: "never"`, func(o *Options) { o.Mode = "never" }},
		{"below nothing", "audit-log-maxbackup", func(o *Options) { o.MaxBackups = -1 }},
	} {
		o := options(t, allMetadata)
		tc.edit(&o)
		if err := o.Check(); (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, not %s", tc.name, err, tc.says)
		}
	}
}

func event(n int) *internal.Event {
	return &internal.Event{AuditID: types.UID(fmt.Sprint(n)), Level: internal.LevelMetadata, Verb: "get", Stage: internal.StageResponseComplete}
}

func TestEventsAreLinesOfTheFile(t *testing.T) {
	for _, mode := range []string{ModeBatch, ModeBlocking, ModeBlockingStrict} {
		o := options(t, allMetadata)
		o.Mode = mode
		for run := range 2 { // a second one appends
			l, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 50 {
				if !l.Backend.ProcessEvents(event(run*50 + i)) {
					t.Error("an event is refused")
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		content, err := os.ReadFile(o.Path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(o.Path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v: %v", info.Mode(), err)
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		if len(lines) != 100 {
			t.Fatalf("%s: %d lines", mode, len(lines))
		}
		for i, line := range lines {
			var e struct{ Kind, APIVersion, AuditID, Verb string }
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Kind != "Event" || e.APIVersion != "audit.k8s.io/v1" || e.AuditID != fmt.Sprint(i) {
				t.Fatalf("%s: %s: %v", mode, line, err)
			}
		}
	}
}

func TestOldFilesGo(t *testing.T) {
	o := options(t, allMetadata)
	o.MaxBackups = 1
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	large := event(0)
	large.UserAgent = strings.Repeat("x", 300<<10)
	for range 20 { // 6 MB
		l.Backend.ProcessEvents(large)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// They are removed beside the writing.
	var left []os.DirEntry
	for end := time.Now().Add(time.Minute); len(left) != 2 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if left, err = os.ReadDir(filepath.Dir(o.Path)); err != nil {
			t.Fatal(err)
		}
	}
	if len(left) != 2 {
		t.Errorf("%v", left)
	}
	for _, f := range left {
		if info, err := f.Info(); err != nil || info.Size() > 1<<20 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info, err)
		}
	}
}

func TestADiskThatIsFull(t *testing.T) {
	for mode, passes := range map[string]bool{ModeBlocking: true, ModeBlockingStrict: false, ModeBatch: true} {
		o := options(t, allMetadata)
		o.Path, o.MaxSize, o.Mode = "/dev/full", 0, mode
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if l.Backend.ProcessEvents(event(0)) != passes {
			t.Errorf("%s lets a request pass that is not logged: %v", mode, !passes)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
