package containerd

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
)

// withLogger sends containerd's log lines to our handler, at our level. containerd logs through the logger in the
// context where there is one, and through logrus's process-wide one elsewhere. While it is not up, its complaints are
// about features that this host lacks or about being stopped, and are logged for debugging only: why it could not boot
// is in the error that is returned.
func withLogger(ctx context.Context, logger *slog.Logger, up *atomic.Bool) context.Context {
	hook := slogHook{logger.With("component", "containerd"), up}
	own := logrus.New()
	own.ExitFunc = func(int) {} // a server that is stopped too early would end this process
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

// level returns the lowest level that our handler lets through, so that no line is formatted in vain.
func (h slogHook) level() logrus.Level {
	level := logrus.PanicLevel
	for _, l := range logrus.AllLevels {
		if h.logger.Enabled(context.Background(), slogLevel(l)) {
			level = l
		}
	}
	return level
}

// slogLevel returns our level for one of containerd's. Its info messages are about its internals and become debug
// messages.
func slogLevel(l logrus.Level) slog.Level {
	switch l {
	case logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel:
		return slog.LevelError
	case logrus.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}
