package reach

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// visit is the presence of a client on a connection that it has asked to upgrade. A client that has left gets nothing any more,
// and nothing waits for it, but what it has sent is still read: closing the connection, or answering somebody who has closed it,
// would lose what is under way.
type visit struct {
	left chan struct{} // closed when the client has left
	// beforeEnd, if it is set, is called before somebody reads the end of what the client has sent.
	beforeEnd func()

	mu   sync.Mutex
	gone bool
	conn net.Conn // once it is taken over
}

func newVisit() *visit { return &visit{left: make(chan struct{})} }

// leave notes that the client has left.
func (v *visit) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone {
		return
	}
	v.gone = true
	close(v.left)
	if v.conn != nil {
		_ = v.conn.SetWriteDeadline(time.Unix(1, 0)) // ends a write that waits for it
	}
}

func (v *visit) hasLeft() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.gone
}

// take takes over a connection to the client. Package frames, which bounds what the client sends, has put back what was read ahead.
func (v *visit) take(conn net.Conn, buffered *bufio.ReadWriter) (net.Conn, *bufio.ReadWriter, error) {
	if n := buffered.Reader.Buffered(); n > 0 {
		return nil, nil, fmt.Errorf("%d bytes were read ahead, and would be lost", n)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.conn = conn
	c := &visitConn{conn, v}
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

// visitWriter is the ResponseWriter of a visit. It cannot be unwrapped: a library that takes over the connection does so here.
type visitWriter struct {
	http.ResponseWriter
	visit *visit
}

func (w visitWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return w.visit.take(conn, buffered)
}

// visitConn is the connection of a visit. What is written to a client that has left is dropped without an error, since libraries
// that fail to write a control message read no more either.
type visitConn struct {
	net.Conn
	visit *visit
}

func (c *visitConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n == 0 && err != nil && c.visit.beforeEnd != nil {
		c.visit.beforeEnd()
	}
	return n, err
}

func (c *visitConn) Write(b []byte) (int, error) {
	if c.visit.hasLeft() {
		return len(b), nil
	}
	n, err := c.Conn.Write(b)
	if err != nil && c.visit.hasLeft() {
		return len(b), nil
	}
	return n, err
}

func (c *visitConn) SetDeadline(t time.Time) error {
	c.visit.mu.Lock()
	defer c.visit.mu.Unlock()
	if c.visit.gone {
		return c.Conn.SetReadDeadline(t)
	}
	return c.Conn.SetDeadline(t)
}

func (c *visitConn) SetWriteDeadline(t time.Time) error {
	c.visit.mu.Lock()
	defer c.visit.mu.Unlock()
	if c.visit.gone {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}
