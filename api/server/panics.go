package server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/jobd/jobd/api/scheme"
)

const (
	// maxStack bounds what is logged of a stack, and stackEvery and stackBurst how many are: whoever has found a request
	// that panics can send it again and again.
	maxStack   = 16 << 10
	stackEvery = 10 * time.Second
	stackBurst = 5
)

// panics answers for the faults of handlers.
type panics struct {
	logger *slog.Logger
	count  atomic.Uint64
	stacks *rate.Limiter
}

func newPanics(logger *slog.Logger) *panics {
	return &panics{logger: logger, stacks: rate.NewLimiter(rate.Every(stackEvery), stackBurst)}
}

// fault counts and logs what a handler has panicked with, and returns what its client is told. The id is in both.
func (p *panics) fault(id string, reason any, stack []byte, attrs ...any) *apierrors.StatusError {
	p.count.Add(1)
	message := fmt.Sprint(reason)
	// A panic that was carried over from another goroutine has the stack of that one, which is the interesting one, behind its
	// message.
	if first, rest, ok := strings.Cut(message, "\ngoroutine "); ok {
		message, stack = first, []byte("goroutine "+rest)
	}
	attrs = append([]any{"id", id, "panic", message[:min(len(message), maxStack)]}, attrs...)
	if p.stacks.Allow() {
		attrs = append(attrs, "stack", string(stack[:min(len(stack), maxStack)]))
	}
	p.logger.Error("a request has met a fault of jobd", attrs...)
	return apierrors.NewInternalError(fmt.Errorf("the request has met a fault of jobd: its log says more under the id %s", id))
}

// watcher is fault for a watch, which goes on beside its handler.
func (p *panics) watcher(ctx context.Context, reason any) error {
	var path string
	if info, ok := request.RequestInfoFrom(ctx); ok {
		path = info.Path
	}
	return p.fault(string(uuid.NewUUID()), reason, debug.Stack(), "path", path)
}

// answer answers with an error where a handler panics; otherwise the connection would be cut without a word. An answer that
// has begun is cut, since the client must not take what it has for the whole.
func (p *panics) answer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &begunWriter{ResponseWriter: w}
		defer func() {
			reason := recover()
			if reason == nil {
				return
			}
			if err, ok := reason.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler)
			}
			id := cmp.Or(w.Header().Get(auditinternal.HeaderAuditID), string(uuid.NewUUID()))
			attrs := []any{"method", r.Method, "path", r.URL.Path}
			if who, ok := request.UserFrom(r.Context()); ok {
				attrs = append(attrs, "user", who.GetName())
			}
			err := p.fault(id, reason, debug.Stack(), attrs...)
			switch {
			case out.taken != nil:
				_ = out.taken.Close() // nobody else would
			case out.begun:
				panic(http.ErrAbortHandler)
			default:
				for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding", "Etag", "Trailer"} {
					w.Header().Del(name)
				}
				responsewriters.ErrorNegotiated(err, scheme.Answers, schema.GroupVersion{}, w, r)
			}
		}()
		next.ServeHTTP(out.interfaces(), r)
	})
}

// begunWriter knows whether an answer has begun, and which connection a handler has taken over.
type begunWriter struct {
	http.ResponseWriter
	begun bool
	taken net.Conn
}

// interfaces returns the writer with the optional interfaces of the one beneath.
func (w *begunWriter) interfaces() http.ResponseWriter { return responsewriter.WrapForHTTP1Or2(w) }

func (w *begunWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *begunWriter) WriteHeader(code int) {
	w.begun = w.begun || code >= http.StatusOK || code == http.StatusSwitchingProtocols
	w.ResponseWriter.WriteHeader(code)
}

func (w *begunWriter) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

func (w *begunWriter) Flush() {
	w.begun = true
	w.ResponseWriter.(http.Flusher).Flush()
}

func (w *begunWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buffered, err := w.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		w.taken = c
	}
	return c, buffered, err
}

// countAborts counts the answers that are cut off on purpose.
func countAborts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			reason := recover()
			if reason == nil {
				return
			}
			if err, ok := reason.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				info, _ := requestInfo.NewRequestInfo(r) // nil counts as others
				metrics.RecordRequestAbort(r, info)
			}
			panic(reason)
		}()
		next.ServeHTTP(w, r)
	})
}
