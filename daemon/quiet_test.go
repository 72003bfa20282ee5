package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

func TestWhatLibrariesLog(t *testing.T) {
	var out bytes.Buffer
	l := slog.New(quiet{slog.NewTextHandler(&out, nil)})
	l.Info("a library's own affairs")
	l.Error("Unhandled Error", "err", "apiserver was unable to write a fallback application/json response: "+http.ErrHandlerTimeout.Error())
	l.Error("Unhandled Error", "err", http.ErrHandlerTimeout)
	l.Error("Post-timeout activity", "path", "/apis")
	l.Error("Timeout or abort while handling", "URI", "/apis")
	l.Warn("a warning")
	l.Error("Unhandled Error", "err", errors.New("a real one"))
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "a warning") || !strings.Contains(got, "a real one") {
		t.Errorf("%s", got)
	}
}
