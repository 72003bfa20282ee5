package server

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/store"
)

// Whether a pod of a Job was ever bound is asked in the transaction that holds it, and only by that request.
func TestMoveOfAJob(t *testing.T) {
	var begun atomic.Bool
	var asked atomic.Int32
	ts := startServer(t, func(c *Config) {
		c.Begun = func(*store.Snapshot, *batchv1.Job) (bool, error) {
			asked.Add(1)
			return begun.Load(), nil
		}
	})
	jobs := ts.client(t).BatchV1().Jobs("default")
	made := mustMake(t, jobs, newJob("j"))
	move := func(body string) (int, string) {
		return ts.do(t, http.MethodPost, "/apis/batch/v1/namespaces/default/jobs/j/move", "application/json", body)
	}
	begun.Store(true)
	if code, text := move(`{"to":"big"}`); code != http.StatusConflict || !strings.Contains(text, batch.HasBegun) {
		t.Errorf("one that has begun: %d %s", code, text)
	}
	if j, err := jobs.Get(t.Context(), "j", metav1.GetOptions{}); err != nil || j.ResourceVersion != made.ResourceVersion {
		t.Errorf("it was written: %v", err)
	}
	begun.Store(false)
	for range 2 {
		if code, text := move(`{"to":"big"}`); code != http.StatusOK || !strings.Contains(text, `"suspend":true`) {
			t.Errorf("%d %s", code, text)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times, want once for each write that was to be made", n)
	}
	j, err := jobs.Get(t.Context(), "j", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	j.Spec.Suspend = new(false)
	if _, err := jobs.Update(t.Context(), j, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "being moved to big") {
		t.Errorf("resumed by hand: %v", err)
	}
	for _, c := range []struct {
		body string
		code int
		want string
	}{
		{`{"to":"other"}`, http.StatusConflict, "being moved to big"},
		{`{}`, http.StatusUnprocessableEntity, "must name where"},
		{`{"too":"big"}`, http.StatusBadRequest, "the body of a move"},
		{`{"cancel":true}`, http.StatusOK, `"suspend":false`},
	} {
		if code, text := move(c.body); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s", c.body, code, text)
		}
	}
}
