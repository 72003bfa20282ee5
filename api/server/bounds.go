package server

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// What clients can use of the daemon's resources is bounded. The bodies of requests (3 MiB) and how many of them are
// served at a time (400 that read, 200 that write) are bounded as in a cluster; how those are divided among clients is
// in sharing.go, and the rest is here.
const (
	// maxHeaderBytes bounds the line and the headers of a request, and maxHeaders how many there are: each costs memory
	// before the client is authenticated.
	maxHeaderBytes = 128 << 10
	maxHeaders     = 256
	// maxPath bounds the path of a request, with the names in it.
	maxPath = 8 << 10
	// maxSelector bounds a selector, and maxRequirements the number of its requirements: each is matched against every
	// object.
	maxSelector     = 64 << 10
	maxRequirements = 1000
	// maxContinue bounds the token by which a list is continued.
	maxContinue = 16 << 10
)

// refuseExcess refuses requests that are larger than any client needs.
func refuseExcess(next http.Handler, negotiated runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkExtent(r); err != nil {
			responsewriters.ErrorNegotiated(err, negotiated, schema.GroupVersion{}, w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func checkExtent(r *http.Request) *apierrors.StatusError {
	if n := len(r.URL.Path); n > maxPath {
		return tooLarge(http.StatusRequestURITooLong, "the path of the request has %d bytes: at most %d are allowed", n,
			maxPath)
	}
	count := 0
	for _, values := range r.Header {
		count += len(values)
	}
	if count > maxHeaders {
		return tooLarge(http.StatusRequestHeaderFieldsTooLarge, "the request has %d headers: at most %d are allowed",
			count, maxHeaders)
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	query := r.URL.Query()
	for _, name := range []string{"labelSelector", "fieldSelector"} {
		for _, selector := range query[name] {
			if n := len(selector); n > maxSelector {
				return tooLarge(http.StatusBadRequest, "%s has %d bytes: at most %d are allowed", name, n, maxSelector)
			}
			if n := requirements(selector); n > maxRequirements {
				return tooLarge(http.StatusBadRequest, "%s has %d requirements: at most %d are allowed", name, n,
					maxRequirements)
			}
		}
	}
	for _, token := range query["continue"] {
		if n := len(token); n > maxContinue {
			return tooLarge(http.StatusBadRequest, "continue has %d bytes: at most %d are allowed", n, maxContinue)
		}
	}
	return nil
}

func tooLarge(code int32, format string, args ...any) *apierrors.StatusError {
	status := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonBadRequest,
		Message: fmt.Sprintf(format, args...)}
	return &apierrors.StatusError{ErrStatus: status}
}

// requirements counts the requirements of a selector: commas within parentheses separate values.
func requirements(selector string) int {
	n, depth := 1, 0
	for _, c := range selector {
		switch {
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case c == ',' && depth == 0:
			n++
		}
	}
	return n
}

// dropSlowReaders closes the connections of clients that do not read what they have requested: a response or the next
// events of a watch must be read within the time that a request may last. Logs and the streams of processes are exempt,
// since a person at the other end may have paused them.
func (s *Server) dropSlowReaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || longRunning(r, info) && info.Verb != "watch" {
			next.ServeHTTP(w, r)
			return
		}
		path := r.URL.Path
		taken := &takenInTime{ResponseWriter: w, within: s.config.RequestTimeout}
		taken.late = time.AfterFunc(taken.within, func() {
			if taken.hangUp() {
				s.config.Logger.Info("hung up on a client that reads too slowly", "path", path)
			}
		})
		taken.late.Stop()
		defer taken.end()
		if _, ok := w.(http.Hijacker); ok {
			next.ServeHTTP(hijackable{taken}, r)
			return
		}
		next.ServeHTTP(taken, r)
	})
}

// takenInTime supervises each write to a client.
type takenInTime struct {
	http.ResponseWriter
	within time.Duration
	late   *time.Timer

	mu    sync.Mutex
	ended bool // the request; nobody may touch its ResponseWriter any more
}

// hangUp ends the current write and every later one. It does nothing if the request has just ended.
func (w *takenInTime) hangUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	// A deadline that has passed ends it, on a connection as on a stream of one.
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Unix(1, 0)) == nil
}

func (w *takenInTime) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

func (w *takenInTime) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *takenInTime) Write(b []byte) (int, error) {
	w.late.Reset(w.within)
	defer w.late.Stop()
	return w.ResponseWriter.Write(b)
}

func (w *takenInTime) Flush() {
	w.late.Reset(w.within)
	defer w.late.Stop()
	_ = http.NewResponseController(w.ResponseWriter).Flush() // there is one to every connection
}

// CloseNotify is how the handlers recognize a connection.
func (w *takenInTime) CloseNotify() <-chan bool {
	//lint:ignore SA1019 apiserver's handlers still ask for it
	return w.ResponseWriter.(http.CloseNotifier).CloseNotify()
}

// hijackable is for connections of HTTP/1, which watches over WebSocket hijack.
type hijackable struct{ *takenInTime }

func (w hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.ResponseWriter.(http.Hijacker).Hijack()
}
