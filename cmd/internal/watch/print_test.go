package watch

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/jobd/jobd/cmd/internal/about"
	"github.com/jobd/jobd/cmd/internal/submit"
)

// answers is a server whose answers are a function of how often it was asked: a status code, or 0 if it cannot be reached.
type answers struct {
	asked  int
	answer func(asked int) (code int, body string)
}

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	a.asked++
	code, body := a.answer(a.asked)
	if code == 0 {
		return nil, syscall.ECONNREFUSED
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// TestWatchIntoAPipe prints the pictures of a Job from a server that is there, and not there, and there again.
func TestWatchIntoAPipe(t *testing.T) {
	const (
		running = `{"job":{"name":"x","state":"Running"},"cells":{"states":"","details":""}}`
		ended   = `{"job":{"name":"x","state":"Complete","ended":1},"cells":{"states":"","details":""}}`
		gone    = `{"kind":"Status","status":"Failure","reason":"NotFound","code":404,"message":"jobs \"x\" not found"}`
		busy    = `{"kind":"Status","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"starting"}`
	)
	for _, tc := range []struct {
		name         string
		answer       func(asked int) (int, string)
		want         string // in the error; empty for none
		printed, err string
		within       time.Duration
	}{
		{"it is restarted", func(asked int) (int, string) {
			switch {
			case asked == 1:
				return 200, running
			case asked < 10:
				return 0, ""
			case asked < 20:
				return 503, busy
			}
			return 200, ended
		}, "", "Complete", "the server answers again", submit.Patience},
		{"it does not come back", func(asked int) (int, string) {
			if asked == 1 {
				return 200, running
			}
			return 0, ""
		}, "the server has not answered for 1m0s", "Running", "trying again", submit.Patience + 30*time.Second},
		{"it was never there", func(int) (int, string) { return 0, "" }, "refused", "", "", 30 * time.Second},
		{"the Job is deleted meanwhile", func(asked int) (int, string) {
			if asked == 1 {
				return 200, running
			}
			return 404, gone
		}, "not found", "Running", "", 30 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://jobd", Transport: &answers{answer: tc.answer}})
				if err != nil {
					t.Fatal(err)
				}
				var out, errOut bytes.Buffer
				w := &watcher{client: client, job: &about.Object{Resource: "jobs", Namespace: "default", Name: "x"}}
				begin := time.Now()
				err = w.print(t.Context(), genericiooptions.IOStreams{Out: &out, ErrOut: &errOut})
				if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("it ends with %v", err)
				}
				if !strings.Contains(out.String(), tc.printed) || !strings.Contains(errOut.String(), tc.err) {
					t.Errorf("it prints %q and %q", &out, &errOut)
				}
				if took := time.Since(begin); took > tc.within {
					t.Errorf("it takes %v", took)
				}
			})
		})
	}
}
