package flowcontrol

import (
	"net/http"
	"testing"
	"time"
)

// TestNobodyHangsUpOnARequestThatHasEnded lets the time limit of a write expire at the moment when its request ends: by
// then the connection belongs to another request, and a stream to nobody.
func TestNobodyHangsUpOnARequestThatHasEnded(t *testing.T) {
	w := &takenInTime{ResponseWriter: endedStream{t}}
	w.end()
	if w.hangUp() {
		t.Error("it hangs up")
	}
}

// endedStream is what HTTP/2 leaves of a stream: nothing that may be called.
type endedStream struct{ t *testing.T }

func (s endedStream) Header() http.Header              { return nil }
func (s endedStream) Write([]byte) (int, error)        { s.t.Error("written to"); return 0, nil }
func (s endedStream) WriteHeader(int)                  { s.t.Error("answered") }
func (s endedStream) SetWriteDeadline(time.Time) error { s.t.Error("touched"); return nil }
