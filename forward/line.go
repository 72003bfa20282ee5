package forward

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// requestTime is how long a request may take that is not a watch or a log.
	requestTime = 15 * time.Second
	// probeInterval is how often it is tried whether the cluster answers.
	probeInterval = 5 * time.Second
)

// line knows since when the cluster does not answer.
type line struct {
	mu     sync.Mutex
	silent time.Time
}

// since returns since when the cluster does not answer; zero if it does.
func (l *line) since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silent
}

// heard takes in how a request has ended, and reports whether the cluster answers again, or no more.
func (l *line) heard(err error, now time.Time) (turned bool) {
	var status apierrors.APIStatus
	answers := err == nil || errors.As(err, &status)
	l.mu.Lock()
	defer l.mu.Unlock()
	if answers != l.silent.IsZero() {
		if l.silent = now; answers {
			l.silent = time.Time{}
		}
		return true
	}
	return false
}

// ask makes a request to the cluster, in a bounded time.
func (f *Forwarder) ask(ctx context.Context, request func(context.Context) error) error {
	ctx, done := context.WithTimeout(ctx, requestTime)
	defer done()
	return request(ctx)
}

// probe finds out whether the cluster answers, until ctx ends.
func (f *Forwarder) probe(ctx context.Context) {
	for {
		err := func() error {
			ctx, done := context.WithTimeout(ctx, probeInterval)
			defer done()
			return f.remote.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
		}()
		if ctx.Err() != nil {
			return
		}
		if f.line.heard(err, f.now()) {
			if f.line.since().IsZero() {
				f.Logger.Info("the cluster answers again")
			} else {
				f.Logger.Warn("the cluster does not answer", "error", err)
			}
			f.all()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(probeInterval):
		}
	}
}
