package containerd

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
)

// withLogger brings containerd's logging under ours: its lines come out of our handler, at our level. containerd logs
// through the logger in the context where it has one, and through logrus's own for the process where it has none.
// While it is not up, its complaints are about what it could do on other hosts or about being stopped, and only
// debugging: why it could not boot is an error that is returned.
func withLogger(ctx context.Context, logger *slog.Logger, up *atomic.Bool) context.Context {
	hook := slogHook{logger.With("component", "containerd"), up}
	own := logrus.New()
	own.ExitFunc = func(int) {} // a part of this process does not end it: a server stopped too early would
	for _, l := range []*logrus.Logger{own, logrus.StandardLogger()} {
		l.SetOutput(io.Discard)
		l.ReplaceHooks(logrus.LevelHooks{})
		l.AddHook(hook)
		l.SetLevel(hook.level())
	}
	return log.WithLogger(ctx, logrus.NewEntry(own))
}

type slogHook struct {
	logger *slog.Logger
	up     *atomic.Bool
}

func (slogHook) Levels() []logrus.Level { return logrus.AllLevels }

func (h slogHook) Fire(e *logrus.Entry) error {
	attrs := make([]slog.Attr, 0, len(e.Data))
	for key, value := range e.Data {
		attrs = append(attrs, slog.Any(key, value))
	}
	level := slogLevel(e.Level)
	if !h.up.Load() {
		level = slog.LevelDebug
	}
	h.logger.LogAttrs(context.Background(), level, e.Message, attrs...)
	return nil
}

// level is the lowest that our handler lets through, so that no line is made for nothing.
func (h slogHook) level() logrus.Level {
	level := logrus.PanicLevel
	for _, l := range logrus.AllLevels {
		if h.logger.Enabled(context.Background(), slogLevel(l)) {
			level = l
		}
	}
	return level
}

// slogLevel takes containerd's information, which is about its own inside, for ours to debug.
func slogLevel(l logrus.Level) slog.Level {
	switch l {
	case logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel:
		return slog.LevelError
	case logrus.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}
