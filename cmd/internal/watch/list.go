package watch

import (
	"context"
	"slices"
	"unicode"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/cmd/internal/about"
	"github.com/jobd/jobd/cmd/internal/terminal"
)

// arrange shows those Jobs of the list that are looked for, and keeps the one that was chosen.
func (w *watcher) arrange() {
	var chosen types.UID
	if w.list.Selected < len(w.list.Jobs) {
		chosen = w.list.Jobs[w.list.Selected].UID
	}
	w.list.Jobs, w.list.Of, w.list.Namespaces = terminal.Arrange(w.all, w.list.Filter, w.list.Order), len(w.all), w.namespace == ""
	if i := slices.IndexFunc(w.list.Jobs, func(j batchv1.Job) bool { return j.UID == chosen }); i >= 0 {
		w.list.Selected = i
	}
	w.list.Selected = max(0, min(w.list.Selected, len(w.list.Jobs)-1))
	var listed []batchv1.Job
	for _, j := range w.list.Jobs[max(0, w.list.Selected-mostReasons):] {
		switch batch.State(&j) {
		case batch.StateWaiting, batch.StateFailing, batch.StateFailed:
			listed = append(listed, j)
		}
		if len(listed) == mostReasons {
			break
		}
	}
	w.mu.Lock()
	w.listed = listed
	w.mu.Unlock()
}

// listKey does what a key is for in the list alone, and reports whether there is something.
func (w *watcher) listKey(key string, step int) bool {
	switch {
	case step != 0:
		w.list.Selected = max(0, min(w.list.Selected+step, len(w.list.Jobs)-1))
	case key == "/":
		w.list.Typing = true
	case key == "o":
		w.list.Order = w.list.Order.Next()
		w.arrange()
	case key == "esc":
		w.list.Filter = ""
		w.arrange()
	case key == "a":
		w.namespace, w.other = w.other, w.namespace
		w.all, w.list.Jobs, w.list.Selected = []batchv1.Job{}, nil, 0
		w.aim(nil)
	default:
		return false
	}
	return true
}

// typed takes a key of the filter, and reports whether to go on.
func (w *watcher) typed(key string) bool {
	filter := []rune(w.list.Filter)
	switch {
	case key == "quit":
		return false
	case key == "enter":
		w.list.Typing = false
	case key == "esc":
		w.list.Typing, filter = false, nil
	case key == "backspace":
		filter = filter[:max(0, len(filter)-1)]
	default:
		if r := []rune(key); len(r) == 1 && unicode.IsPrint(r[0]) && len(filter) < 100 {
			filter = append(filter, r[0])
		}
	}
	w.list.Filter = string(filter)
	w.arrange()
	return true
}

// choose lets the end of the log of the chosen failure be asked for.
func (w *watcher) choose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed = ""; w.view.Failures != nil && w.failure < len(w.view.Failures.Groups) {
		w.failed = w.view.Failures.Groups[w.failure].Pod
	}
}

// retry runs again what has failed of a Job, and returns what it has done.
func (w *watcher) retry(ctx context.Context, of about.Object) string {
	err := w.client.BatchV1().RESTClient().Post().Namespace(of.Namespace).Resource("jobs").Name(of.Name).SubResource("retry").
		SetHeader("Content-Type", "application/json").Body([]byte("{}")).Do(ctx).Error()
	if err != nil {
		return err.Error()
	}
	return "job " + of.Name + " runs again what has failed"
}
