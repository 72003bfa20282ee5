package flowcontrol

import (
	"bufio"
	"net"
	"net/http"
	"slices"

	"github.com/jobd/jobd/api/frames"
	"github.com/jobd/jobd/api/storage"
)

// written notes when the events of a watch are written to its client: the handlers flush when they have written all that
// there is, and over WebSocket write each event as a frame.
type written struct {
	http.ResponseWriter
	unread *storage.Unread
}

func writtenOf(w http.ResponseWriter, unread *storage.Unread) http.ResponseWriter {
	of := &written{w, unread}
	if _, ok := w.(http.Hijacker); ok {
		return hijackableWritten{of}
	}
	return of
}

func (w *written) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *written) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush() // there is one to every connection
	w.unread.Written()
}

// CloseNotify is how the handlers recognize a connection.
func (w *written) CloseNotify() <-chan bool {
	//lint:ignore SA1019 apiserver's handlers still ask for it
	return w.ResponseWriter.(http.CloseNotifier).CloseNotify()
}

// hijackableWritten is for connections of HTTP/1, which watches over WebSocket hijack.
type hijackableWritten struct{ *written }

func (w hijackableWritten) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return hijack(w.ResponseWriter, func(c net.Conn) net.Conn { return &frameConn{Conn: c, written: w.unread.Written} })
}

// frameConn calls written whenever a frame with data has been written to a connection, after the head of the answer.
type frameConn struct {
	net.Conn
	written func()
	frames  frames.Sent
	tail    []byte // of the answer, as far as it is written
}

// endOfHead is where the head of an answer ends, and the frames begin.
const endOfHead = "\r\n\r\n"

func (c *frameConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	switch {
	case err != nil:
	case string(c.tail) != endOfHead:
		c.tail = append(c.tail, b...)
		c.tail = slices.Clone(c.tail[max(0, len(c.tail)-len(endOfHead)):])
	case c.frames.Pass(b):
		c.written()
	}
	return n, err
}
