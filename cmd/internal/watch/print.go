package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/cmd/internal/terminal"
)

// printPause is between two questions where the pictures are printed.
const printPause = 2 * time.Second

// print prints the picture of a Job or a JobSet whenever it has changed, until it has ended. When the server is out of reach, since
// it is being restarted for example, it goes on as jobctl follow does.
func (w *watcher) print(ctx context.Context, streams genericiooptions.IOStreams) error {
	w.style, w.setView.Selected = terminal.Style{Width: 80, Height: 24}, -1
	before := ""
	var lost time.Time
	for {
		a := w.question(ctx, w.job, w.view.Cursor)
		switch err := a.err; {
		case err == nil:
			if !lost.IsZero() {
				fmt.Fprintln(streams.ErrOut, "the server answers again")
			}
			lost = time.Time{}
			if err := w.update(a); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case before == "" || isAnswer(err):
			return err
		case lost.IsZero():
			lost = time.Now()
			fmt.Fprintf(streams.ErrOut, "the server does not answer, trying again: %v\n", err)
		case time.Since(lost) >= submit.Patience:
			return fmt.Errorf("the server has not answered for %v: %w", submit.Patience, err)
		}
		lines, now, ended := w.printed(ctx)
		if now != before {
			before = now
			if _, err := fmt.Fprintln(streams.Out, strings.TrimRight(strings.Join(lines[:len(lines)-1], "\n"), "\n")+"\n"); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(printPause):
		}
	}
}

// printed returns what is printed, what tells whether it is new, and whether it is the last.
func (w *watcher) printed(ctx context.Context) (lines []string, version string, ended bool) {
	if v := &w.setView; w.job.Resource == "jobsets" {
		if v.Why = ""; v.State == batch.StateWaiting || v.State == jobset.StateRestarting {
			v.Why, _ = w.reason(ctx, *w.job)
		}
		for _, g := range v.Groups {
			version += fmt.Sprintln(g.State, g.Counts)
		}
		return terminal.DrawSet(v, w.style), version + fmt.Sprint(v.State, v.Decided, v.Restarts, v.Former > 0, v.Why != ""), v.Ended > 0
	}
	w.view.Why = ""
	if w.view.Job.State == batch.StateWaiting {
		w.view.Why, _ = w.reason(ctx, *w.job)
	}
	return terminal.Draw(&w.view, -1, w.style), fmt.Sprint(w.view.Job.State, w.view.Job.Counts, w.view.Why != ""), w.view.Job.Ended > 0
}

// isAnswer reports whether an error is what the server has to say about a request, and not that it is out of reach, is just
// starting or has too much to do.
func isAnswer(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code < http.StatusInternalServerError && code != http.StatusTooManyRequests
}
