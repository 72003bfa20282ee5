package forward

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/jobd/jobd/internal/handover"
)

const (
	// requestTime is how long a request may take that is not a watch or a log.
	requestTime = 15 * time.Second
	// probeInterval is how often it is tried whether the cluster answers.
	probeInterval = 5 * time.Second
)

// line knows since when the cluster does not answer, and what was heard last instead.
type line struct {
	mu     sync.Mutex
	silent time.Time
	why    error
}

// since returns since when the cluster does not answer; zero if it does.
func (l *line) since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silent
}

// instead returns what was heard last of a cluster that does not answer.
func (l *line) instead() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == nil {
		return ""
	}
	return l.why.Error()
}

// heard takes in how a request has ended, and reports whether the cluster answers again, or no more. Who is not let in has no answer, as
// with a token that has expired, nor has who hears only from a proxy that its server is down.
func (l *line) heard(err error, now time.Time) (turned bool) {
	answers := err == nil || apierrors.IsTooManyRequests(err) || handover.Refused(err) && !apierrors.IsUnauthorized(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why = nil; !answers {
		l.why = err
	}
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
