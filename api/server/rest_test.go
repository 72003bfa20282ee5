package server

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	yaml12 "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const plainJob = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":%q},"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"busybox"}]}}}}`

func jobJSON(name string) string { return strings.Replace(plainJob, "%q", `"`+name+`"`, 1) }

// TestAnswersOfACluster compares with what a real cluster answered to the same requests (testdata/rest.yaml).
func TestAnswersOfACluster(t *testing.T) {
	data, err := os.ReadFile("testdata/rest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var recorded map[string]struct {
		Request string
		Code    int
		Body    struct {
			metav1.Status `json:",inline"`
			N             *int
			Type          string
		}
	}
	if err := yaml.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	ts := startServer(t)
	ts.mustDo(t, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"or-updates"}}`, 201)
	for _, name := range []string{"u-done", "u-failed", "u-plain", "x1", "x2", "x3", "x4"} {
		ts.mustDo(t, "POST", "/apis/batch/v1/namespaces/or-updates/jobs", jobJSON(name), 201)
	}
	ts.mustPatch(t, "/apis/batch/v1/namespaces/or-updates/jobs/u-done/status", `{"status":{"succeeded":1}}`)
	ts.mustPatch(t, "/apis/batch/v1/namespaces/or-updates/jobs/x1/status", `{"status":{"succeeded":1}}`)
	bodies := map[string]string{
		"create twice":      jobJSON("u-plain"),
		"put wrong name":    jobJSON("other"),
		"post wrong kind":   `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`,
		"generateName":      strings.Replace(jobJSON("gen-"), `"name":"gen-"`, `"generateName":"gen-"`, 1),
		"no name":           strings.Replace(jobJSON(""), `"name":""`, ``, 1),
		"unknown namespace": jobJSON("x"),
		"method":            "{}",
	}
	for name, want := range recorded {
		if want.Body.Type != "" {
			continue // a watch: see TestWatchFromAVersionThatIsGone
		}
		t.Run(name, func(t *testing.T) {
			method, path, _ := strings.Cut(want.Request, " ")
			contentType := "application/json"
			code, text := ts.do(t, method, path, contentType, bodies[name])
			if code != want.Code {
				t.Errorf("code %d, a cluster answers %d: %s", code, want.Code, text)
			}
			if want.Body.Kind != "Status" {
				var list struct {
					Kind     string
					Items    []any
					Metadata metav1.ListMeta
				}
				if err := json.Unmarshal([]byte(text), &list); err != nil {
					t.Fatal(err)
				}
				if list.Kind != want.Body.Kind {
					t.Errorf("kind %s, a cluster answers %s", list.Kind, want.Body.Kind)
				}
				if want.Body.N != nil && len(list.Items) != *want.Body.N {
					t.Errorf("%d items, a cluster answers %d", len(list.Items), *want.Body.N)
				}
				if r := want.Body.RemainingItemCount; r != nil && (list.Metadata.RemainingItemCount == nil || *list.Metadata.RemainingItemCount != *r) {
					t.Errorf("remainingItemCount %v, a cluster answers %d", list.Metadata.RemainingItemCount, *r)
				}
				if want.Body.Continue != "" && list.Metadata.Continue == "" {
					t.Error("no continue token")
				}
				return
			}
			var got metav1.Status
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if name == "post wrong kind" {
				// A cluster names its internal Go types here; ours are the public ones.
				got.Message, _, _ = strings.Cut(got.Message, ": converting")
				want.Body.Message, _, _ = strings.Cut(want.Body.Message, ": converting")
			}
			if d := cmp.Diff(want.Body.Status, got, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestBadManifestsOverTheAPI posts the manifests that were recorded with a cluster's answers (testdata/oracle/bad).
func TestBadManifestsOverTheAPI(t *testing.T) {
	ts := startServer(t)
	read := func(file string, into any) {
		data, err := os.ReadFile("../../testdata/oracle/bad/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var content any // they were written as YAML 1.2, where y is not a boolean
		if err := yaml12.Unmarshal(data, &content); err != nil {
			t.Fatal(err)
		}
		if data, err = json.Marshal(content); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	var answers map[string]metav1.Status
	read("errors.yaml", &answers)
	for name, want := range answers {
		t.Run(name, func(t *testing.T) {
			var manifest json.RawMessage
			read(name+".yaml", &manifest)
			code, text := ts.do(t, "POST", "/apis/batch/v1/namespaces/default/jobs", "application/json", string(manifest))
			if code == int(want.Code) && code == 201 {
				return
			}
			var got metav1.Status
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if code != int(want.Code) || got.Reason != want.Reason || withoutDump(got.Message) != withoutDump(want.Message) {
				t.Errorf("%d %s: %s\na cluster answers %d %s: %s", code, got.Reason, got.Message, want.Code, want.Reason, want.Message)
			}
		})
	}
}

// withoutDump removes from a message the whole value that was wrong: a cluster shows its internal Go types there.
func withoutDump(message string) string { return dump.ReplaceAllString(message, "Invalid value: {}:") }

var dump = regexp.MustCompile(`Invalid value: \{.*\}:`)

// TestUpdatesAnsweredByTheHandler has the recorded updates (testdata/oracle) that are refused before the rules of the
// kind are applied.
func TestUpdatesAnsweredByTheHandler(t *testing.T) {
	data, err := os.ReadFile("../../testdata/oracle/updates.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var recorded map[string]map[string]struct {
		Patch           json.RawMessage
		Code            int
		Reason, Message string
	}
	if err := yaml.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	ts := startServer(t)
	ts.mustDo(t, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"or-updates"}}`, 201)
	for _, job := range []string{"u-plain", "u-indexed"} {
		path := "/apis/batch/v1/namespaces/or-updates/jobs"
		ts.mustDo(t, "POST", path, jobJSON(job), 201)
		for _, name := range []string{"metadata.name", "stale resourceVersion"} {
			t.Run(job+"/"+name, func(t *testing.T) {
				want, ok := recorded[job][name]
				if !ok {
					t.Fatal("not recorded")
				}
				code, text := ts.do(t, "PATCH", path+"/"+job, "application/merge-patch+json", string(want.Patch))
				var got metav1.Status
				if err := json.Unmarshal([]byte(text), &got); err != nil {
					t.Fatal(err)
				}
				if code != want.Code || string(got.Reason) != want.Reason || got.Message != want.Message {
					t.Errorf("%d %s: %s\na cluster answers %d %s: %s", code, got.Reason, got.Message, want.Code, want.Reason, want.Message)
				}
			})
		}
	}
}

func (ts *testServer) mustDo(t testing.TB, method, path, body string, want int) string {
	t.Helper()
	code, text := ts.do(t, method, path, "application/json", body)
	if code != want {
		t.Fatalf("%s %s: %d: %s", method, path, code, text)
	}
	return text
}

func (ts *testServer) mustPatch(t testing.TB, path, body string) {
	t.Helper()
	if code, text := ts.do(t, "PATCH", path, "application/merge-patch+json", body); code != 200 {
		t.Fatalf("patch %s: %d: %s", path, code, text)
	}
}
