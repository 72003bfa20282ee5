package watch

import (
	"bytes"
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	wire "github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/about"
)

const (
	// pollPause is between two questions for what is on the screen.
	pollPause = 500 * time.Millisecond
	// whyPause is between two questions for reasons; whyNotPause if there were none.
	whyPause    = time.Second
	whyNotPause = 10 * time.Second
	// mostJobs is how many Jobs an overview has at most, and for how many of them reasons are asked.
	mostJobs    = 1000
	mostReasons = 20
)

// answer is something that the server has said.
type answer struct {
	of      *about.Object // nil for the overview
	within  string        // the namespace of an overview
	labels  string        // and a selector
	picture *wire.Picture
	set     *wire.SetPicture
	jobs    []batchv1.Job
	err     error
	// why is the answer to other questions: the reasons of the Job, or of the Jobs of an overview. reasons is that of the Job in full,
	// and last the end of the log of the pod lastOf.
	why                   map[types.UID]string
	reasons, lastOf, last string
}

// question asks the server for a picture.
func (w *watcher) question(ctx context.Context, of *about.Object, cursor string) (a answer) {
	a.of = of
	if of.Resource == "jobsets" {
		a.set, a.err = about.SetPicture(ctx, w.client, of.Namespace, of.Name)
		return a
	}
	a.picture = &wire.Picture{}
	a.err = about.Picture(ctx, w.client, of.Namespace, of.Name, wire.Options{Cursor: cursor}, a.picture)
	return a
}

// hurry lets the next question be asked at once.
func (w *watcher) hurry() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// ask asks the server again and again.
func (w *watcher) ask(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		a, cursor := w.asking, w.cursor
		w.mu.Unlock()
		if a.of != nil {
			a = w.question(ctx, a.of, cursor)
		} else {
			var list *batchv1.JobList
			if list, a.err = w.client.BatchV1().Jobs(a.within).List(ctx, metav1.ListOptions{Limit: mostJobs, LabelSelector: a.labels}); a.err == nil {
				a.jobs = list.Items
			}
		}
		select {
		case w.answers <- a:
		case <-ctx.Done():
			return
		}
		select {
		case <-w.wake:
		case <-time.After(pollPause):
		case <-ctx.Done():
			return
		}
	}
}

// askWhy asks for the reasons of what is on the screen, for as long as the server is one that has any.
func (w *watcher) askWhy(ctx context.Context) {
	failed := map[string]string{} // of Jobs that have failed, which have the same reason for as long as they are as they are
	last := map[string]string{}   // the end of the log of the pod that was asked for last: it has failed, and writes no more
	pause := whyPause
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		w.mu.Lock()
		a, jobs := answer{of: w.asking.of, why: map[types.UID]string{}, lastOf: w.failed}, w.listed
		w.mu.Unlock()
		answers := true
		if a.of != nil {
			a.why[""], a.reasons, answers = w.explain(ctx, *a.of)
			if _, known := last[a.lastOf]; !known && a.lastOf != "" {
				text, _ := about.LastLines(ctx, w.client, a.of.Namespace, a.lastOf)
				last = map[string]string{a.lastOf: text}
			}
			a.last, jobs = last[a.lastOf], nil
		}
		for i := range jobs {
			j := &jobs[i]
			version, ended := string(j.UID)+j.ResourceVersion, batch.End(&j.Status) != nil
			reason, known := failed[version]
			if !ended || !known {
				reason, answers = w.reason(ctx, about.Object{Resource: "jobs", Namespace: j.Namespace, Name: j.Name})
			}
			if ended && answers {
				failed[version] = reason
			}
			a.why[j.UID] = reason
			if !answers {
				break
			}
		}
		if pause = whyPause; !answers {
			pause = whyNotPause // a cluster does not know the request; or the Job is just gone
		}
		select {
		case w.answers <- a:
		case <-ctx.Done():
			return
		}
	}
}

// reason returns why a Job is in its state in a few words; false if the server does not say.
func (w *watcher) reason(ctx context.Context, of about.Object) (string, bool) {
	brief, _, answers := w.explain(ctx, of)
	return brief, answers
}

// explain returns the reason also in full.
func (w *watcher) explain(ctx context.Context, of about.Object) (brief, full string, answers bool) {
	said, err := about.Why(ctx, w.client, of)
	if err != nil {
		return "", "", false
	}
	var text bytes.Buffer
	_ = why.Print(&text, said) // a buffer takes everything
	return said.Reason, text.String(), true
}
