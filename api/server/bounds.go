package server

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// What clients can take of the daemon is bounded. The bodies of requests (3 MiB) and how many of them are served at a
// time (400 that read, 200 that write) are bounded as in a cluster; the rest is here.
const (
	// maxHeaderBytes bounds the line and the headers of a request.
	maxHeaderBytes = 1 << 20
	// defaultMaxStreams bounds watches, logs that are followed, and processes in containers that clients hold on to.
	defaultMaxStreams = 5000
	// maxConnections bounds those over the network, where anybody may connect: who has no credentials must not use up
	// the daemon's file descriptors.
	maxConnections = 2000
)

// limitStreams refuses requests that last, when there are too many of them. The client is told to come again.
func limitStreams(next http.Handler, most int, negotiated runtime.NegotiatedSerializer) http.Handler {
	var streams atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !longRunning(r, info) {
			next.ServeHTTP(w, r)
			return
		}
		defer streams.Add(-1)
		if streams.Add(1) > int64(most) {
			err := apierrors.NewTooManyRequests(fmt.Sprintf("%d watches and other requests that last are served already", most), 1)
			responsewriters.ErrorNegotiated(err, negotiated, schema.GroupVersion{}, w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// dropSlowReaders hangs up on clients that do not take what they have asked for: an answer or the next events of a
// watch must be taken within the time that a request may last. Logs and processes are another matter, since there is a
// person at the other end who may have paused them.
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

// hangUp ends the write that is going on, and every later one. It does nothing when the request has just ended.
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

// hijackable is for connections of HTTP/1, which watches over WebSocket take for themselves.
type hijackable struct{ *takenInTime }

func (w hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.ResponseWriter.(http.Hijacker).Hijack()
}
