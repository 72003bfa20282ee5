package submit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/jobd/jobd/api/batch"
)

const plainJob = `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}`

func afterOf(t *testing.T, manifest string, after ...string) (*Manifests, error) {
	t.Helper()
	o := Options{Files: []string{"-"}, After: after, FollowOptions: FollowOptions{Progress: "auto", OnStartError: OnStartErrorWait}}
	return o.Manifests(pflag.NewFlagSet("", pflag.ContinueOnError), nil, strings.NewReader(manifest))
}

func TestAfterIsWrittenIntoTheManifest(t *testing.T) {
	for _, c := range []struct{ manifest, after, want, fails string }{
		{plainJob, "prep:ok,check:any", "prep,check:any", ""},
		{plainJob, "prep:never", "", "--after: "},
		{plainJob, "", "", "names no Job"},
		{strings.Replace(plainJob, "name: j", `name: j, annotations: {jobd.dev/after: other}`, 1), "prep", "", "the file says it too"},
	} {
		m, err := afterOf(t, c.manifest, c.after)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: %v", c.after, err)
			}
			continue
		}
		if err != nil || m.Job.GetAnnotations()[batch.AfterAnnotation] != c.want {
			t.Fatalf("%q: %v %v", c.after, m, err)
		}
		if suspend := m.Job.Object["spec"].(map[string]any)["suspend"]; suspend != true {
			t.Errorf("it is not suspended: %v", suspend)
		}
	}
}

// What is gone is looked up in the history.
func TestWhatAfterNamesAndIsGone(t *testing.T) {
	serve := func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("name")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/namespaces/n/jobs/there"):
			_, _ = w.Write([]byte(`{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "there"}}`))
		case strings.HasPrefix(r.URL.Path, "/apis/history.jobd.dev/") && name == "done":
			_, _ = w.Write([]byte(`{"items": [{"name": "done", "result": "Complete", "ended": "2026-01-01T00:00:00Z"}]}`))
		case strings.HasPrefix(r.URL.Path, "/apis/history.jobd.dev/") && name == "failed":
			_, _ = w.Write([]byte(`{"items": [{"name": "failed", "result": "Failed", "ended": "2026-01-01T00:00:00Z"}]}`))
		case strings.HasPrefix(r.URL.Path, "/apis/history.jobd.dev/"):
			_, _ = w.Write([]byte(`{"items": []}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`))
		}
	}
	server := httptest.NewServer(http.HandlerFunc(serve))
	defer server.Close()
	client, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ after, want, tells, fails string }{
		{"there,never", "there,never", "", ""},
		{"done,there:any", "there:any", "done ended at", ""},
		{"done,failed:any", "", "failed ended at", ""},
		{"failed", "", "", "would wait for ever for failed to complete"},
	} {
		m, err := afterOf(t, plainJob, c.after)
		if err != nil {
			t.Fatal(err)
		}
		told, err := m.Resolve(t.Context(), client, "n")
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v", c.after, err)
		}
		if err != nil {
			continue
		}
		if got := m.Job.GetAnnotations()[batch.AfterAnnotation]; got != c.want || !strings.Contains(strings.Join(told, "\n"), c.tells) {
			t.Errorf("%s: %q, %q", c.after, got, told)
		}
		if suspend := m.Job.Object["spec"].(map[string]any)["suspend"]; (suspend == true) != (c.want != "") {
			t.Errorf("%s: suspended: %v", c.after, suspend)
		}
	}
}
