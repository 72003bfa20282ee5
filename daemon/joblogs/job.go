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

	"github.com/jobd/jobd/api/batch"
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
	out        *lineMerger
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
	there := l.there(l.ofJob(j.UID))
	if len(there) == 0 && (!o.Follow || o.Previous) {
		if err := l.whyNone(); err != nil {
			return nil, err
		}
	}
	reading, stop := context.WithCancel(ctx)
	r, w := io.Pipe()
	l.out = &lineMerger{w: w, remaining: -1, enough: stop}
	if o.LimitBytes != nil {
		l.out.remaining = *o.LimitBytes
	}
	go func() {
		defer stop()
		var err error
		if o.Follow && !o.Previous {
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
}

// there lists the logs of some pods that are wanted and exist.
func (l *jobLogs) there(of []logRecord) (all []recorded) {
	for _, r := range of {
		for _, c := range l.containers {
			attempts := l.attempts(&r, c)
			switch n := len(attempts); {
			case l.opts.AllAttempts || n == 0:
			case l.opts.Previous:
				attempts = attempts[max(0, n-2) : n-1]
			default:
				attempts = attempts[n-1:]
			}
			for _, a := range attempts {
				all = append(all, recorded{attemptLog{r.UID, c, a}, r})
			}
		}
	}
	return all
}

func (l *jobLogs) readAll(ctx context.Context, all []recorded) error {
	for _, log := range all {
		if err := l.read(ctx, log, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// read copies one log to the reader. A log that is gone by now is empty.
func (l *jobLogs) read(ctx context.Context, log recorded, whole bool, ended <-chan struct{}) error {
	o := readOptions(l.opts.Pod())
	o.Follow, o.LimitBytes, o.Watcher = ended != nil, nil, l.watcher
	if whole {
		o.TailLines = nil
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

// missing is the line that stands where so much of the log was rotated away.
func (log recorded) missing(bytes int64, before time.Time) string {
	size := fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	if bytes < 1e6 {
		size = fmt.Sprintf("%d bytes", bytes)
	}
	what := "the first " + size + " of its log were"
	if !before.IsZero() {
		what = size + " of its log, written after " + before.Format(time.RFC3339Nano) + ", were"
	}
	return log.prefix("missing") + what + " removed by its rotation before they could be read, and are not shown"
}

func (log recorded) prefix(s logs.Stream) string {
	index := ""
	if log.record.Index != nil {
		index = fmt.Sprintf(" index=%d", *log.record.Index)
	}
	return fmt.Sprintf("[pod/%s/%s%s attempt=%d %s] ", log.record.Name, log.container, index, log.attempt, s)
}

// eachPod calls fn with the Job's pods as they are now.
func (l *jobLogs) eachPod(fn func(*corev1.Pod)) error {
	return l.store.View(func(s *store.Snapshot) error {
		var failed error
		s.Owned(string(l.job.UID), "", func(key string) bool {
			if !strings.HasPrefix(key, objects.Pods+"/") {
				return true
			}
			o, ok := s.Get(key)
			if !ok {
				return true
			}
			p := &corev1.Pod{}
			if failed = objects.Decode(o, p); failed != nil {
				return false
			}
			fn(p)
			return true
		})
		return failed
	})
}
