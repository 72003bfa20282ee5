package manifests

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/store"
)

// fakeAPI has one Job, and refuses to change it.
type fakeAPI struct {
	live    batchv1.Job
	created *metav1.Status // the answer to a Job that is created on trial
	calls   []string
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Method
	if r.URL.Query().Get("dryRun") == metav1.DryRunAll {
		call += " on trial"
	}
	if !strings.HasSuffix(r.URL.Path, "/events") {
		f.calls = append(f.calls, call)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	answer := func(code int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(value)
	}
	refusal := func(code int32, reason metav1.StatusReason, message string) *metav1.Status {
		return &metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
		}
	}
	switch call {
	case "GET":
		answer(http.StatusOK, &f.live)
	case "PATCH":
		answer(http.StatusUnprocessableEntity, refusal(422, metav1.StatusReasonInvalid, "field is immutable"))
	case "POST on trial":
		if f.created == nil {
			f.created = refusal(409, metav1.StatusReasonAlreadyExists, "it is there")
		}
		answer(int(f.created.Code), f.created)
	case "DELETE":
		answer(http.StatusOK, &f.live)
	default:
		answer(http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "e"}})
	}
}

// A Job is deleted, to be replaced, only if the API would take the one in its place.
func TestAnErrorDeletesNothing(t *testing.T) {
	invalid := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid,
		Message: `spec.backoffLimit: must be greater than or equal to 0`,
	}
	ended := batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: "True"}}}
	for rule, c := range map[string]struct {
		status  batchv1.JobStatus
		created *metav1.Status
		calls   []string
		said    string
	}{
		"a typo, of one that waits":      {batchv1.JobStatus{}, invalid, []string{"GET", "PATCH", "POST on trial"}, "spec.backoffLimit: must be"},
		"a change of one that waits":     {batchv1.JobStatus{}, nil, []string{"GET", "PATCH", "POST on trial", "DELETE"}, "to be replaced"},
		"a typo, of one that has ended":  {ended, invalid, []string{"GET", "POST on trial"}, "spec.backoffLimit: must be"},
		"a change of one that has ended": {ended, nil, []string{"GET", "POST on trial", "DELETE"}, "to be replaced"},
		"a typo, of one that runs":       {batchv1.JobStatus{Active: 1}, invalid, []string{"GET", "PATCH", "POST on trial"}, "spec.backoffLimit: must be"},
		"a change of one that runs":      {batchv1.JobStatus{Active: 1}, nil, []string{"GET", "PATCH", "POST on trial"}, "once nothing of it runs"},
	} {
		t.Run(rule, func(t *testing.T) {
			dir := t.TempDir()
			s, err := store.Open(filepath.Join(dir, "db"), store.Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			socket, err := net.Listen("unix", filepath.Join(dir, "api"))
			if err != nil {
				t.Fatal(err)
			}
			api := &fakeAPI{created: c.created}
			api.live = batchv1.Job{
				TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
				ObjectMeta: metav1.ObjectMeta{Name: "once", Namespace: "default", UID: "u", Labels: map[string]string{PartOf: SetID}}, Status: c.status,
			}
			server := &http.Server{Handler: api}
			defer server.Close()
			go server.Serve(socket) //nolint:errcheck // it ends with the test
			a, err := New(Options{Dir: dir, Socket: filepath.Join(dir, "api"), Store: s, Node: "node", Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.recall(); err != nil {
				t.Fatal(err)
			}
			all, err := parse("f", []byte("apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec: {backoffLimit: -1}\n"))
			if err != nil {
				t.Fatal(err)
			}
			err = a.bring(t.Context(), &all[0])
			if err == nil || !strings.Contains(err.Error(), c.said) || !slices.Equal(api.calls, c.calls) {
				t.Errorf("%v after %q, want %q after %q", err, api.calls, c.said, c.calls)
			}
		})
	}
}

// What was wrong is told again once it was right meanwhile.
func TestProblemsOfADirectory(t *testing.T) {
	var log strings.Builder
	dir := t.TempDir()
	s, err := store.Open(filepath.Join(dir, "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := filepath.Join(dir, "manifests.d")
	if err := os.Mkdir(d, 0o755); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Dir: d, Socket: filepath.Join(dir, "api"), Store: s, Node: "node", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	told := func() int { return strings.Count(log.String(), "a manifest cannot be applied") }
	for i, step := range []struct {
		text string
		mode os.FileMode // of the directory
		want int
	}{
		{"kind: [", 0o755, 1}, {"kind: [", 0o755, 1}, {"kind: [", 0o777, 2}, {"kind: [", 0o755, 2}, {"", 0o755, 3}, {"kind: [", 0o777, 4},
	} {
		if err := os.WriteFile(filepath.Join(d, "a.yaml"), []byte(step.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, step.mode); err != nil {
			t.Fatal(err)
		}
		a.look(t.Context(), time.Now())
		if got := told(); got != step.want {
			t.Fatalf("step %d: told %d times, want %d:\n%s", i+1, got, step.want, log.String())
		}
	}
}
