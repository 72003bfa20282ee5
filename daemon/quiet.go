package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
)

// quiet lowers a library's informational messages to debug messages, and those about clients that have not waited for their
// answer: the log of each page that somebody leaves would otherwise look like a failure.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, lowered(level))
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lowered(r.Level)
	if leftByClient(r) {
		r.Level = slog.LevelDebug
	}
	if !q.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

// leftByClient reports whether a message of the API server's library is about a client that has gone, or for which the time
// of a request was over. The library cannot tell these apart, and reports each up to four times.
func leftByClient(r slog.Record) (left bool) {
	if r.Message == "Post-timeout activity" || r.Message == "Timeout or abort while handling" {
		return true
	}
	r.Attrs(func(a slog.Attr) bool {
		left = a.Key == "err" && strings.Contains(a.Value.String(), http.ErrHandlerTimeout.Error())
		return !left
	})
	return left
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }

func lowered(level slog.Level) slog.Level {
	if level < slog.LevelWarn {
		return min(level, slog.LevelDebug)
	}
	return level
}
