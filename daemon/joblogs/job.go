package joblogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/warning"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/store"
)

// jobLogs are the logs of a Job's pods, as somebody has requested them.
type jobLogs struct {
	*Logs
	job        *batchv1.Job
	opts       *batch.JobLogOptions
	containers []string
	values     *batch.IndexValues // for prefixes; nil if there are none
	out        *lineMerger
	tails      map[attemptLog]int64 // how many lines are wanted of the logs that were there at first; nil is all
}

// attemptLog is one log: what an attempt of a container of a pod has written.
type attemptLog struct {
	pod       types.UID
	container string
	attempt   int
}

// OpenJob implements api/server's JobLogs.
func (k *Logs) OpenJob(ctx context.Context, j *batchv1.Job, o *batch.JobLogOptions) (io.ReadCloser, error) {
	select {
	case <-k.loaded:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l := &jobLogs{Logs: k, job: j, opts: o, containers: o.Containers(j)}
	if o.Prefix {
		if err := l.store.View(func(s *store.Snapshot) (err error) {
			l.values, err = objects.IndexValues(s, j)
			return err
		}); err != nil {
			return nil, err
		}
	}
	there := l.there(l.ofJob(j.UID))
	if len(there) == 0 && (!o.Follow || o.Previous) {
		if err := l.whyNone(); err != nil {
			return nil, err
		}
	}
	if o.TailLines != nil && *o.TailLines >= 0 {
		var err error
		if l.tails, err = l.tail(ctx, there, *o.TailLines); err != nil {
			return nil, err
		}
	}
	if missed := l.lacking(there); missed != "" {
		warning.AddWarning(ctx, "", missed)
	}
	follows := o.Follow && !o.Previous
	over := func() {}
	if follows {
		var err error
		if over, err = l.shares.follow(ctx); err != nil {
			return nil, err
		}
	}
	reading, stop := context.WithCancel(ctx)
	r, w := io.Pipe()
	l.out = &lineMerger{w: w, remaining: -1, enough: stop, held: l.shares.lines(ctx)}
	if o.LimitBytes != nil {
		l.out.remaining = *o.LimitBytes
	}
	go func() {
		defer stop()
		defer over()
		defer l.out.held.share.Release()
		var err error
		if follows {
			err = l.follow(reading, l.store.Version())
		} else {
			err = l.readAll(reading, there)
		}
		if l.out.full() {
			err = nil
		}
		w.CloseWithError(err)
	}()
	return logStream{r, stop}, nil
}

// Elsewhere implements api/server's JobLogs.
func (k *Logs) Elsewhere(j *batchv1.Job) (node string, err error) {
	if own := j.Spec.Template.Spec.NodeName; own != "" && own != k.node {
		return own, nil
	}
	if job.Managed(j) {
		return "", nil // all its pods are as its template says
	}
	err = (&jobLogs{Logs: k, job: j}).eachPod(func(p *corev1.Pod) {
		if podspec.Elsewhere(p, k.node) && !clusters.Shown(p) {
			node = p.Spec.NodeName
		}
	})
	return node, err
}

// whyNone returns why a Job has no log, with the error that a request for the log of its youngest pod would get.
func (l *jobLogs) whyNone() error {
	if l.opts.Previous {
		return apierrors.NewBadRequest(
			fmt.Sprintf("previous terminated container %s in job %q not found", quoted(l.containers), l.job.Name))
	}
	var youngest *corev1.Pod
	if err := l.eachPod(func(p *corev1.Pod) {
		if youngest == nil || youngest.CreationTimestamp.Before(&p.CreationTimestamp) {
			youngest = p
		}
	}); err != nil || youngest == nil {
		return err
	}
	if podspec.Elsewhere(youngest, l.node) && !clusters.Shown(youngest) {
		return apierrors.NewBadRequest(fmt.Sprintf("the pods of job %q are on the node %q, and this machine is %q: what they print is there",
			l.job.Name, youngest.Spec.NodeName, l.node))
	}
	_, err := attemptOf(youngest, &corev1.PodLogOptions{Container: l.containers[0]})
	return err
}

func quoted(names []string) string {
	var q []string
	for _, n := range names {
		q = append(q, strconv.Quote(n))
	}
	return strings.Join(q, ", ")
}

// recorded is a log with the record of its pod.
type recorded struct {
	attemptLog
	record logRecord
	values string // of its index, for its prefix
}

// there lists the logs of some pods that are wanted and exist.
func (l *jobLogs) there(of []logRecord) (all []recorded) {
	for _, r := range of {
		for _, c := range l.containers {
			attempts := l.attempts(&r, c)
			switch n := len(attempts); {
			case l.opts.AllRestarts || n == 0:
			case l.opts.Previous:
				attempts = attempts[max(0, n-2) : n-1]
			default:
				attempts = attempts[n-1:]
			}
			for _, a := range attempts {
				all = append(all, recorded{attemptLog: attemptLog{r.UID, c, a}, record: r})
			}
		}
	}
	return all
}

func (l *jobLogs) readAll(ctx context.Context, all []recorded) error {
	for _, log := range all {
		if lines, there := l.tails[log.attemptLog]; there && lines == 0 {
			continue
		}
		if err := l.read(ctx, log, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// read copies one log to the reader. A log that is gone by now is empty.
func (l *jobLogs) read(ctx context.Context, log recorded, whole bool, ended <-chan struct{}) error {
	o := readOptions(l.opts.Pod())
	o.Follow, o.LimitBytes, o.Watcher, o.Turn = ended != nil, nil, l.watcher, l.shares.turn
	o.TailLines = nil
	if lines, there := l.tails[log.attemptLog]; there && !whole {
		o.TailLines = &lines
	}
	if log.record.Index != nil {
		log.values = l.values.Words(*log.record.Index)
	}
	if l.opts.Prefix {
		o.Prefix = log.prefix
	}
	if l.opts.Missing {
		o.Missing = log.missing
	}
	lines := &lineSource{to: l.out}
	err := logs.Read(ctx, l.path(log), o, lines, ended)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, lines.Close())
}

func (l *jobLogs) path(log recorded) string {
	return filepath.Join(l.recordDir(&log.record), log.container, strconv.Itoa(log.attempt)+".log")
}

// lacking says which logs of some lack their beginning, although it is wanted; empty if none does, or if that is said where it
// would be (Missing).
func (l *jobLogs) lacking(all []recorded) string {
	if l.opts.Missing || l.opts.TailLines != nil || l.opts.SinceTime != nil || l.opts.SinceSeconds != nil {
		return ""
	}
	var first recorded
	var bytes int64
	n := 0
	for _, log := range all {
		if removed := logs.Removed(l.path(log)); removed > 0 {
			if n++; n == 1 {
				first, bytes = log, removed
			}
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("the first %s of the log of pod %s (container %s) were removed by its rotation, and are not shown",
			amount(bytes), first.record.Name, first.container)
	}
	return fmt.Sprintf("the beginnings of %d logs were removed by their rotation, and are not shown: of that of pod %s (container %s) the first %s",
		n, first.record.Name, first.container, amount(bytes))
}

// amount says how many bytes there are.
func amount(bytes int64) string {
	if bytes < 1e6 {
		return fmt.Sprintf("%d bytes", bytes)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}

// missing is the line that stands where so much of the log was rotated away.
func (log recorded) missing(bytes int64, before time.Time) string {
	size := amount(bytes)
	what := "the first " + size + " of its log were"
	if !before.IsZero() {
		what = size + " of its log, written after " + before.Format(time.RFC3339Nano) + ", were"
	}
	return log.prefix("missing") + what + " removed by its rotation before they could be read, and are not shown"
}

func (log recorded) prefix(s logs.Stream) string {
	more := ""
	if log.record.Index != nil {
		more = fmt.Sprintf(" index=%d", *log.record.Index)
		if log.values != "" {
			more += "(" + log.values + ")"
		}
	}
	// What is usual is left out.
	for _, n := range []struct {
		name      string
		is, usual int
	}{{"attempt", log.record.Attempt, 1}, {"try", log.record.Try, 1}, {"restart", log.attempt, 0}} {
		if n.is > n.usual {
			more += fmt.Sprintf(" %s=%d", n.name, n.is)
		}
	}
	return fmt.Sprintf("[pod/%s/%s%s %s] ", log.record.Name, log.container, more, s)
}

// eachPod calls fn with the Job's pods as they are now.
func (l *jobLogs) eachPod(fn func(*corev1.Pod)) error {
	return l.store.View(func(s *store.Snapshot) error {
		var failed error
		s.Owned(string(l.job.UID), store.Key(objects.Pods, l.job.Namespace, ""), "", func(key string) bool {
			o, ok := s.Get(key)
			if !ok {
				return true
			}
			p := &corev1.Pod{}
			if failed = objects.Decode(o, p); failed != nil {
				return false
			}
			if objects.ControllingJob(p) == l.job.UID {
				fn(p)
			}
			return true
		})
		return failed
	})
}
