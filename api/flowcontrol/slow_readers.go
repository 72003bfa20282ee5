package flowcontrol

import (
	"bufio"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// DropSlowReaders closes the connections of clients that do not read what they have requested: a response or the next
// events of a watch must be read within the time that is given. Logs and the streams of processes are exempt,
// since a person at the other end may have paused them.
func DropSlowReaders(
	next http.Handler, longRunning request.LongRunningRequestCheck, within time.Duration, logger *slog.Logger,
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || longRunning(r, info) && info.Verb != "watch" {
			next.ServeHTTP(w, r)
			return
		}
		path := r.URL.Path
		taken := &takenInTime{ResponseWriter: w, within: within, tooLate: func() {
			logger.Info("hung up on a client that reads too slowly", "path", path)
		}}
		taken.late = time.AfterFunc(taken.within, func() {
			if taken.hangUp() {
				taken.tooLate()
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
	within  time.Duration
	late    *time.Timer
	tooLate func() // says so

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
	return hijack(w.ResponseWriter, func(c net.Conn) net.Conn {
		return &connInTime{Conn: c, within: w.within, tooLate: w.tooLate}
	})
}

// connInTime supervises each write to a connection.
type connInTime struct {
	net.Conn
	within  time.Duration
	tooLate func()
}

func (c *connInTime) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.within)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.tooLate()
	}
	return n, err
}

// hijack takes over the connection of a request, and writes to it through another.
func hijack(w http.ResponseWriter, through func(net.Conn) net.Conn) (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c = through(c)
	return c, bufio.NewReadWriter(rw.Reader, bufio.NewWriter(c)), nil
}
