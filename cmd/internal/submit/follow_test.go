package submit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/progress"
)

// fakeServer answers what a Follower asks about one Job, which has no pods.
type fakeServer struct {
	log  *slowLog
	jobs chan *batchv1.Job
	// why is what the Job waits for.
	why []why.Cause
}

func (s *fakeServer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(body io.Reader) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body), Request: r,
		}, nil
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/log"):
		s.log.ctx = r.Context()
		return answer(s.log)
	case strings.HasSuffix(r.URL.Path, "/why"):
		raw, err := json.Marshal(why.Explanation{APIVersion: why.APIVersion, Kind: why.Kind, Causes: s.why})
		if err != nil {
			return nil, err
		}
		return answer(bytes.NewReader(raw))
	case strings.HasSuffix(r.URL.Path, "/jobs"):
		return answer(&jobEvents{ctx: r.Context(), jobs: s.jobs})
	case r.URL.Query().Get("watch") != "":
		return answer(&jobEvents{ctx: r.Context()})
	}
	return answer(strings.NewReader(`{"kind": "PodList", "apiVersion": "v1"}`))
}

// jobEvents is the stream of a watch.
type jobEvents struct {
	ctx  context.Context
	jobs <-chan *batchv1.Job
	left bytes.Buffer
}

func (e *jobEvents) Read(b []byte) (int, error) {
	if e.left.Len() == 0 {
		select {
		case j := <-e.jobs:
			j.APIVersion, j.Kind = "batch/v1", "Job"
			object, err := json.Marshal(j)
			if err != nil {
				return 0, err
			}
			fmt.Fprintf(&e.left, `{"type": "MODIFIED", "object": %s}`, object)
		case <-e.ctx.Done():
			return 0, e.ctx.Err()
		}
	}
	return e.left.Read(b)
}

// slowLog is a log that is still being read when its Job has ended: lines with pauses between them. It never ends by
// itself unless it is whole.
type slowLog struct {
	ctx   context.Context
	lines int
	pause time.Duration
	whole bool
}

func (l *slowLog) Read(b []byte) (int, error) {
	if l.lines == 0 && l.whole {
		return 0, io.EOF
	} else if l.lines == 0 {
		<-l.ctx.Done()
		return 0, l.ctx.Err()
	}
	time.Sleep(l.pause)
	l.lines--
	return copy(b, "[pod/p/c stdout] 2026-01-02T03:04:05Z line\n"), nil
}

func TestTheEndOfTheLogsIsAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		own    bool
		log    slowLog
		lines  int
		said   string
		within time.Duration
	}{
		"as long as lines come": {log: slowLog{lines: 20, pause: 9 * time.Second, whole: true}, lines: 20, within: 181 * time.Second},
		"not for ever, if none does": {
			log: slowLog{lines: 3, pause: 9 * time.Second}, lines: 3, within: 38 * time.Second,
			said: "the end of the logs is not shown; follow the Job again with: jobctl follow jobs/j\n",
		},
		"however long it takes, if nobody can read it later": {
			own: true, log: slowLog{lines: 2, pause: time.Hour, whole: true}, lines: 2, within: 3 * time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j", UID: "u", ResourceVersion: "1"}}
				over := j.DeepCopy()
				over.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
				server := &fakeServer{log: &c.log, jobs: make(chan *batchv1.Job, 1)}
				server.jobs <- over
				var out, said bytes.Buffer
				f := Follower{Client: fakeClient(t, server), Display: progress.NewPlain(nil, &out, &said, false), Own: c.own}
				if !c.own {
					f.Again = "jobctl follow jobs/j"
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				if ended, err := f.Follow(ctx, j, true); err != nil || ended.Code != 0 {
					t.Errorf("code %d, %v", ended.Code, err)
				}
				if got := strings.Count(out.String(), "line\n"); got != c.lines {
					t.Errorf("%d lines were shown, want %d", got, c.lines)
				}
				if got := strings.TrimPrefix(said.String(), "job j: created\n"); got != c.said {
					t.Errorf("said %q, want %q", got, c.said)
				}
			})
		})
	}
}

// A Job that nobody but a person can help does not keep a command waiting without a word.
func TestAJobThatCannotStart(t *testing.T) {
	failing := func(kind, failures, message string) why.Cause {
		return why.Cause{Type: kind, Message: message, Details: map[string]string{"failures": failures}}
	}
	const waits = "<waits>"
	for name, c := range map[string]struct {
		cause why.Cause
		own   bool
		want  string
	}{
		"for want of an object": {
			cause: why.Cause{Type: "SecretMissing", Message: "does not exist.", Object: &why.Reference{Kind: "Secret", Name: "s"}},
			want:  "Secret s: does not exist.",
		},
		"since it does not fit":                      {cause: why.Cause{Type: "NeverFits", Message: "Too large."}, want: "Too large."},
		"since a volume fails again":                 {cause: failing("VolumeFails", "2", "No directory."), want: "No directory."},
		"but not when a volume has failed once":      {cause: failing("VolumeFails", "1", "No directory."), want: waits},
		"since its pods are refused":                 {cause: failing("PodRefused", "2", "No such account."), want: "No such account."},
		"but not for a quota, which others may free": {cause: failing("PodRefused", "9", "exceeded quota: q"), want: waits},
		"for a quota that nobody can free": {
			cause: failing("PodRefused", "9", "exceeded quota: q"), own: true, want: "exceeded quota: q",
		},
		"but not while others hold the room": {cause: why.Cause{Type: "WaitsForRoom", Message: "Wait."}, want: waits},
		"but not when it is suspended":       {cause: why.Cause{Type: "Suspended", Message: "Suspended."}, want: waits},
		"if nobody can resume it": {
			cause: why.Cause{Type: "Suspended", Message: "Suspended."}, own: true, want: "Suspended.",
		},
	} {
		for _, onError := range []string{OnStartErrorFail, OnStartErrorWait} {
			t.Run(name+", "+onError, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := &fakeServer{log: &slowLog{}, why: []why.Cause{{Type: "PodWaits", Causes: []why.Cause{c.cause}}}}
					var said bytes.Buffer
					f := Follower{
						Client: fakeClient(t, server), Display: progress.NewPlain(nil, io.Discard, &said, false),
						OnStartError: onError, Own: c.own, Again: "jobctl follow jobs/j",
					}
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j", UID: "u", ResourceVersion: "1"}}
					_, err := f.Follow(ctx, j, true)
					got := fmt.Sprint(strings.TrimPrefix(said.String(), "job j: created\n"), err)
					want := "job j cannot start: " + strings.TrimSuffix(c.want, ".")
					if !c.own {
						want += "; the Job was deleted (--on-start-error=fail)"
					}
					switch {
					case c.want == waits:
						want = context.DeadlineExceeded.Error()
					case onError == OnStartErrorWait:
						want = "job j waits: " + strings.TrimSuffix(c.want,
							".") + "; for what to do, run: jobctl why jobs/j\n" + context.DeadlineExceeded.Error()
					}
					if got != want {
						t.Errorf("%q, want %q", got, want)
					}
				})
			})
		}
	}
}

// TestTheEndOfAFailedJobLeadsOn: what the server advises to retry with is said at the end, unless nobody can do it any more.
func TestTheEndOfAFailedJobLeadsOn(t *testing.T) {
	failed := func() *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: "u", ResourceVersion: "1"}}
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}}
		return j
	}
	help := []why.Cause{
		{Type: "BackoffLimitExceeded", Help: []string{"jobctl retry jobs/j -n n --memory 2x"}},
		{Type: "PodFailed", Help: []string{"jobctl logs pods/p -n n", "jobctl retry jobs/j -n n --pod-deadline 2x"}},
	}
	for name, c := range map[string]struct {
		own   bool
		words string
		why   []why.Cause
		want  string
	}{
		"what most failures need":        {false, "", help, "jobctl why jobs/j -n n; jobctl retry jobs/j -n n --memory 2x"},
		"on another socket":              {false, " --socket /s", help, "jobctl why jobs/j -n n --socket /s; jobctl --socket /s retry jobs/j -n n --memory 2x"},
		"where it cannot be retried":     {false, "", help[1:], "jobctl why jobs/j -n n"},
		"where nothing of it is left":    {true, "", help, ""},
		"where the server does not know": {false, "", nil, "jobctl why jobs/j -n n"},
	} {
		t.Run(name, func(t *testing.T) {
			server := &fakeServer{log: &slowLog{whole: true}, why: c.why}
			f := Follower{
				Client: fakeClient(t, server), Display: progress.NewQuiet(nil, io.Discard, io.Discard, false), Own: c.own,
				Again: "jobctl follow jobs/j -n n" + c.words,
			}
			f.Client.Words = c.words
			ended, err := f.Follow(t.Context(), failed(), false)
			if got := strings.Join(ended.Next, "; "); err != nil || got != c.want {
				t.Errorf("%q, want %q; %v", got, c.want, err)
			}
		})
	}
}

func fakeClient(t *testing.T, server http.RoundTripper) *Client {
	t.Helper()
	client, err := NewClient(&rest.Config{Host: "http://fake", Transport: server, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
