package forward

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
)

// quiet is the log of the Kubernetes libraries without what is said already: that the cluster does not answer, which each watch would say
// again and again. It is there for debugging, as are the libraries' messages about their own affairs.
type quiet struct {
	slog.Handler
	cluster string // the address of its server
}

// Quiet makes a log for the Kubernetes libraries from the forwarder's own. cluster is the address of the cluster's server.
func Quiet(h slog.Handler, cluster string) slog.Handler {
	return quiet{h, strings.TrimSuffix(cluster, "/")}
}

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, lowered(level))
}

// lowered lets what is below a warning be for debugging, and what is more than that be no less: answers of servers have secrets.
func lowered(level slog.Level) slog.Level {
	if level < slog.LevelWarn {
		return min(level, slog.LevelDebug)
	}
	return level
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lowered(r.Level)
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		if is && q.unanswered(err) {
			r.Level = min(r.Level, slog.LevelDebug)
			return false
		}
		return true
	})
	if !q.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

// unanswered reports whether an error says that the cluster has not answered a request: the probe says so once, and when it answers again.
func (q quiet) unanswered(err error) bool {
	var of *url.Error
	return errors.As(err, &of) && (of.URL == q.cluster || strings.HasPrefix(of.URL, q.cluster+"/"))
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(attrs), q.cluster}
}
func (q quiet) WithGroup(name string) slog.Handler {
	return quiet{q.Handler.WithGroup(name), q.cluster}
}
