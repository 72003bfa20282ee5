package flowcontrol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/jobd/jobd/api/images"
)

const (
	// bodyRate is how fast the body of a request has to come on average, in bytes a second: slow enough for any link, and
	// fast enough that a client cannot hold a place for nothing.
	bodyRate = 4 << 10
	// BodyPause is how long a body may pause, and how far it may fall behind the average.
	BodyPause = 30 * time.Second
	// imagePause is the same for images: a `docker save` is silent until it has written the whole archive to its own disk.
	imagePause = 15 * time.Minute
	// drainPause is how long to wait for the rest of a body that nobody reads any more.
	drainPause = time.Second
)

// DropSlowWriters ends requests whose bodies do not arrive: the time for a body grows with what has arrived. Unless the
// request is long-running, the timeout of requests applies to the body too. pause is BodyPause but for tests.
func DropSlowWriters(
	next http.Handler, longRunning request.LongRunningRequestCheck, timeout, pause time.Duration,
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &pacedBody{ReadCloser: r.Body, setDeadline: http.NewResponseController(w).SetReadDeadline,
			pace: pace{pause: pause}}
		switch {
		case r.URL.Path == images.Path:
			b.pause = max(b.pause, imagePause)
		case !longRunning(r, info):
			b.latest = time.Now().Add(timeout)
		}
		defer b.end()
		// The server takes a body that does not arrive for a closed connection. It is open, and the client is to get a
		// response.
		served := r.Context()
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(served))
		defer cancel(nil)
		defer context.AfterFunc(served, func() {
			if !b.late(time.Now()) {
				cancel(context.Cause(served))
			}
		})()
		r = r.WithContext(ctx) // the server keeps its own, with the body that it closes
		r.Body = b
		next.ServeHTTP(w, r)
	})
}

// pace measures how fast a body arrives. Only the time that a reader waits for it counts.
type pace struct {
	pause  time.Duration
	latest time.Time // when all of it has to be there; zero if there is no such time

	waited time.Duration
	bytes  int64
}

// until returns the time by which the next byte has to arrive.
func (p *pace) until(now time.Time) time.Time {
	due := now.Add(min(p.pause, p.pause+time.Duration(p.bytes/bodyRate)*time.Second-p.waited))
	if !p.latest.IsZero() && p.latest.Before(due) {
		due = p.latest
	}
	return due
}

// pacedBody supervises the reading of a body.
type pacedBody struct {
	io.ReadCloser
	pace
	setDeadline func(time.Time) error // for reading from the connection

	mu   sync.Mutex
	due  time.Time // the deadline while the body is being read
	over bool      // the body has been read, or the request has ended: its connection may be another's
}

func (b *pacedBody) Read(p []byte) (int, error) {
	from := time.Now()
	b.set(b.until(from), false)
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	b.waited += time.Since(from)
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, os.ErrDeadlineExceeded):
		b.set(time.Time{}, true)
		return n, err
	}
	// The deadline stays: late has to know that it was the cause.
	return n, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
		Message: fmt.Sprintf("the body of the request comes too slowly: %d bytes in %v", b.bytes,
			b.waited.Round(time.Millisecond)),
	}}
}

// set sets the deadline, for the last time if the body is over.
func (b *pacedBody) set(due time.Time, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.due, b.over = due, over
		_ = b.setDeadline(due) // without deadlines there is no connection
	}
}

// late reports whether the deadline is over.
func (b *pacedBody) late(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.due.IsZero() && !now.Before(b.due)
}

// end is called when the request has ended. The server waits for the rest of a body that was not read.
func (b *pacedBody) end() { b.set(time.Now().Add(drainPause), true) }
