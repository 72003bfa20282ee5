package submit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/cmd/internal/progress"
)

// TestALogThatBreaksOffGoesOn breaks a stream off behind each of its bytes: what is shown is the whole log, once.
func TestALogThatBreaksOffGoesOn(t *testing.T) {
	line := func(pod string, at int, words string) string {
		return fmt.Sprintf("[pod/%s/c stdout] 2026-01-01T00:00:%02d.5Z %s\n", pod, at, words)
	}
	long := strings.Repeat("x", 70<<10) // more than is read at a time
	ofJob := line("a", 1, "one") + line("b", 1, "two") + line("a", 1, "two") + line("a", 1, "two") + line("a", 2, "") +
		line("b", 3, "three "+long) + line("a", 3, "end")
	for name, tc := range map[string]struct {
		log  Log
		text string
		want string
	}{
		"a Job":              {Log{OfJob: true}, ofJob, "one\ntwo\ntwo\ntwo\n\nthree " + long + "\nend\n"},
		"a Job with sources": {Log{OfJob: true, Sources: true, Times: true}, ofJob, ofJob},
		"a Job with labels": {
			Log{OfJob: true, Labels: progress.LabelsOf(&batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2)}}, false, false)}, ofJob,
			"[a] one\n[b] two\n[a] two\n[a] two\n[a] \n[b] three " + long + "\n[a] end\n",
		},
		"a pod":            {Log{}, "2026-01-01T00:00:01.5Z one\n2026-01-01T00:00:01.5Z [two]\n2026-01-01T00:00:02Z end", "one\n[two]\nend"},
		"a pod with times": {Log{Times: true}, "2026-01-01T00:00:01.5Z one\n2026-01-01T00:00:02Z \n", "2026-01-01T00:00:01.5Z one\n2026-01-01T00:00:02Z \n"},
	} {
		t.Run(name, func(t *testing.T) {
			for cut := 1; cut <= len(tc.text); cut++ {
				if cut > 400 && cut < len(tc.text)-200 && cut%997 != 0 {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					log, notices := tc.log, 0
					log.Notice = func(string) { notices++ }
					log.Open = func(_ context.Context, since *time.Time) (io.ReadCloser, error) {
						if notices == 1 && cut%2 == 0 { // the way is not there at once
							notices--
							log.Notice("")
							cut++
							return nil, errors.New("connection refused")
						}
						return io.NopCloser(strings.NewReader(from(tc.text, since))), nil
					}
					was := cut
					var out strings.Builder
					if err := log.Copy(t.Context(), io.NopCloser(broken(tc.text[:cut])), &out); err != nil || out.String() != tc.want {
						t.Fatalf("cut at %d: %v, %.300q", was, err, out.String())
					}
					cut = was
				})
			}
		})
	}
}

// broken is a stream that breaks off.
func broken(text string) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, text)
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
	}()
	return r
}

// from returns the lines since a time, as servers do: to the second.
func from(text string, since *time.Time) string {
	if since == nil {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		_, stamp, _ := strings.Cut(line, "2026-01-01T00:00:")
		if stamp[:2] >= since.UTC().Truncate(time.Second).Format("05") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestALogThatDoesNotGoOn(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	for name, tc := range map[string]struct {
		err, want error
		after     time.Duration
	}{
		"its pod is gone":      {gone, gone, time.Second},
		"nobody answers":       {io.ErrClosedPipe, io.ErrClosedPipe, Patience},
		"the server is broken": {apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", schema.GroupResource{}, "", "", 0, false), nil, Patience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				log := Log{Notice: func(string) {}, Open: func(context.Context, *time.Time) (io.ReadCloser, error) { return nil, tc.err }}
				err := log.Copy(t.Context(), io.NopCloser(broken("2026-01-01T00:00:01Z one\n")), io.Discard)
				took := time.Since(begin)
				if err == nil || tc.want != nil && !errors.Is(err, tc.want) || took > tc.after+10*time.Second || took < tc.after-time.Second {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}
