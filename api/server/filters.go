package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
	apifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	genericfilters "k8s.io/apiserver/pkg/server/filters"

	"github.com/jobd/jobd/api/authorization"
	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/flowcontrol"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/scheme"
)

// chain puts the filters in front of the API, in the order of a kube-apiserver.
func (s *Server) chain(h http.Handler, access access, shares *flowcontrol.Shares) http.Handler {
	backend, policy := s.audit()
	h = s.countElements(h)
	h = s.panics.answer(h) // here too, since this is what a timeout may run on a goroutine of its own, and then leave alone
	h = s.logWrites(h)
	h = shares.Fairly(h)
	h = access(h)
	h = flowcontrol.WithDeepStack(h)
	// Inside the timeout, so that no warning is added to a response that has been given up.
	h = apifilters.WithWarningRecorder(h)
	h = genericfilters.WithTimeoutForNonLongRunningRequests(h, longRunning)
	h = apifilters.WithRequestDeadline(h, backend, policy, longRunning, scheme.Answers, s.config.RequestTimeout)
	h = s.endWithServer(h)
	h = flowcontrol.DropSlowReaders(h, longRunning, s.config.RequestTimeout, s.config.Logger)
	h = flowcontrol.DropSlowWriters(h, longRunning, s.config.RequestTimeout, s.config.bodyPause)
	h = flowcontrol.RefuseExcess(h, scheme.Answers)
	h = apifilters.WithCacheControl(h)
	h = apifilters.WithLatencyTrackers(h)
	h = apifilters.WithRequestInfo(h, requestInfo)
	h = apifilters.WithRequestReceivedTimestamp(h)
	h = countAborts(h)
	return apifilters.WithAuditInit(h)
}

// requestInfo reads from a request what it is about.
var requestInfo = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// endWithServer ends requests that would last for ever when the server stops.
func (s *Server) endWithServer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && longRunning(r, info) {
			ctx, cancel := context.WithCancelCause(r.Context())
			defer cancel(nil)
			defer context.AfterFunc(s.stopping, func() { cancel(conns.ErrStopping) })()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// logWrites logs who changed what, and who opened a connection into a container.
func (s *Server) logWrites(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
		if !ok || reads && !slices.Contains(roles.Reaching, info.Subresource) ||
			authorization.IsQuestion(info.Verb, info.APIGroup, info.Resource) {
			next.ServeHTTP(w, r)
			return
		}
		wr := &write{}
		status := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(status),
			r.WithContext(context.WithValue(r.Context(), writeKey{}, wr)))

		attrs := []any{"verb", info.Verb, "code", status.code}
		if info.IsResourceRequest {
			object := info.Resource
			for _, part := range []string{info.Namespace, cmp.Or(info.Name, wr.name()), info.Subresource} {
				if part != "" {
					object += "/" + part
				}
			}
			attrs = append(attrs, "object", object)
		} else {
			attrs = append(attrs, "path", info.Path)
		}
		if r.URL.Query().Has("dryRun") {
			attrs = append(attrs, "dryRun", true)
		}
		if who, ok := request.UserFrom(r.Context()); ok {
			attrs = append(attrs, "user", who.GetName())
		}
		if actor, ok := r.Context().Value(actorKey{}).(string); ok {
			attrs = append(attrs, "actor", actor)
		}
		if p, ok := conns.PeerFrom(r.Context()); ok {
			attrs = append(attrs, "uid", p.UID, "pid", p.PID)
		} else {
			attrs = append(attrs, "from", r.RemoteAddr)
		}
		s.config.Logger.Info("served a request", attrs...)
	})
}

// write carries facts for the log of a write out of the inner handlers: the name of a created object is not in the URL
// of a POST, only in that of an apply. The object may still be in progress when its request has been given up.
type write struct{ created atomic.Pointer[string] }

func (w *write) name() string {
	if name := w.created.Load(); name != nil {
		return *name
	}
	return ""
}

type writeKey struct{}

func noteCreated(ctx context.Context, name string) {
	if w, ok := ctx.Value(writeKey{}).(*write); ok {
		w.created.Store(&name)
	}
}

type statusWriter struct {
	http.ResponseWriter
	code int
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}
