// Package frames bounds what clients send on connections that were upgraded to WebSocket or SPDY. The libraries that serve them
// hold each frame whole, and have room for it when its length is announced. So the connection is watched for the headers of frames
// before anybody else reads them.
package frames

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// OfSessions is how long a frame may be in any case where a client has something to send, in bytes: those that copy send 32 KiB
	// at a time. OfStreams is for where it has not, as on a watch.
	OfSessions, OfStreams = 64 << 10, 4 << 10
	// largest bounds any frame for which there is memory. Python's client sends what it is given in a single one.
	largest = 32 << 20
	// pause is how long a large frame may take at least, and rate how fast it has to come otherwise, in bytes a second: as
	// for the bodies of requests.
	pause, rate = 30 * time.Second, 4 << 10
)

// Hold asks for memory for a large frame. The bytes are given back by release.
type Hold func(bytes int) (release func(), ok bool)

// ErrTooLarge is why a connection has ended that has announced a frame which is too large.
var ErrTooLarge = errors.New("the frame is too large")

// ErrHeaders is why a connection has ended on which the headers of a stream are too many or too large, or none.
var ErrHeaders = errors.New("the headers of a stream cannot be read")

// header finds frames in what is sent. It is given the bytes of a frame's header one by one, and returns at the last one of them how
// long the rest is. The rest it is given as it comes, at least once; after an error of follow the connection is cut. The last bytes
// that are withheld nobody is to read before more has come.
type header interface {
	next(b byte) (length uint64, complete bool)
	follow(b []byte) error
	withheld() int
}

// Bound returns a ResponseWriter whose connection, if it is taken over, is cut when a frame comes that is longer than free, and hold
// has no memory for it; a nil hold never has, and frames of SPDY are never so long. Its streams of SPDY are read by Reader, with the
// request that it returns. Requests that ask for no upgrade get w itself.
func Bound(w http.ResponseWriter, r *http.Request, free uint64, hold Hold) (http.ResponseWriter, *http.Request) {
	switch upgrade := strings.ToLower(r.Header.Get("Upgrade")); {
	case upgrade == "":
		return w, r
	case upgrade == "websocket": // else it is not what is served, whatever else the header names
		return writer{w, nil, free, hold}, r
	default:
		of := &streams{}
		return writer{w, of, free, nil}, r.WithContext(context.WithValue(r.Context(), streamsKey{}, of))
	}
}

// writer cannot be unwrapped, so that nobody takes over the connection that is beneath.
type writer struct {
	http.ResponseWriter
	streams *streams // of SPDY; nil for WebSocket
	free    uint64   // as long as a frame may be in any case
	hold    Hold
}

func (w writer) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// CloseNotify is how the handlers recognize a connection.
func (w writer) CloseNotify() <-chan bool {
	//lint:ignore SA1019 apiserver's handlers still ask for it
	n, ok := w.ResponseWriter.(http.CloseNotifier)
	if !ok {
		return nil
	}
	return n.CloseNotify()
}

func (w writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	taken, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	read, err := buffered.Peek(buffered.Reader.Buffered())
	if err != nil {
		return nil, nil, err
	}
	c := &conn{
		Conn: taken, from: io.MultiReader(bytes.NewReader(bytes.Clone(read)), taken), free: w.free, hold: w.hold, streams: w.streams,
	}
	c.frames = frames{header: &webSocket{}, admit: c.admit}
	if w.streams != nil {
		c.frames.header = &spdy{streams: w.streams, fromPeer: true}
		c.sent = &frames{header: &spdy{streams: w.streams}}
	}
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

// conn is a connection whose frames are watched.
type conn struct {
	net.Conn
	from    io.Reader
	frames  frames
	free    uint64
	hold    Hold
	streams *streams // of SPDY
	failed  error
	// ready is what has been looked at and may be read, and back what the header withholds.
	ready, back []byte

	sending sync.Mutex // guards sent
	sent    *frames    // nil: not followed

	mu     sync.Mutex
	closed bool
	// release gives back what is held for a large frame, which is late when late fires.
	release func()
	late    *time.Timer
}

// Read reads what the client sends. Whoever comes back for more after a frame has done with it.
func (c *conn) Read(b []byte) (int, error) {
	for len(c.ready) == 0 {
		if c.failed != nil {
			return 0, c.failed
		}
		if c.frames.rest == 0 {
			c.done()
		}
		if c.streams != nil {
			if err := c.streams.wait(); err != nil {
				return 0, c.cut(err)
			}
		}
		n, err := c.from.Read(b)
		if err := c.frames.pass(b[:n]); err != nil {
			return 0, c.cut(err)
		}
		if c.frames.rest == 0 {
			c.arrived()
		}
		if err != nil {
			c.done()
		}
		back := c.frames.header.withheld()
		if len(c.back) == 0 && back == 0 {
			return n, err
		}
		all := append(c.back, b[:n]...)
		c.ready, c.back, c.failed = all[:len(all)-back], bytes.Clone(all[len(all)-back:]), err
	}
	n := copy(b, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// cut ends the connection for what the client has sent.
func (c *conn) cut(why error) error {
	c.failed = why
	c.done()
	_ = c.Conn.Close()
	return why
}

// Close also gives back what is held, since nobody reads on.
func (c *conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	if c.streams != nil {
		c.streams.end()
	}
	c.done()
	return c.Conn.Close()
}

// arrived notes that the whole frame has come; that it is read is another matter.
func (c *conn) arrived() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late != nil {
		c.late.Stop()
	}
}

// done gives back what is held for a frame.
func (c *conn) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.release != nil {
		c.late.Stop()
		c.release()
		c.release = nil
	}
}

// Write is followed for the streams that the server closes.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.sent != nil {
		c.sending.Lock()
		defer c.sending.Unlock()
		_ = c.sent.pass(b[:n]) // it opens none
	}
	return n, err
}

// frames follows the frames in one direction.
type frames struct {
	header header
	rest   uint64 // of the frame, that has not come yet
	admit  func(length uint64) error
}

func (f *frames) pass(b []byte) error {
	for len(b) > 0 {
		if f.rest > 0 {
			n := min(uint64(len(b)), f.rest)
			if err := f.header.follow(b[:n]); err != nil {
				return err
			}
			f.rest -= n
			b = b[n:]
			continue
		}
		length, complete := f.header.next(b[0])
		b = b[1:]
		if !complete {
			continue
		}
		if f.admit != nil {
			if err := f.admit(length); err != nil {
				return err
			}
		}
		if f.rest = length; length == 0 {
			if err := f.header.follow(nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// admit lets a frame through or not.
func (c *conn) admit(length uint64) error {
	c.done() // of a frame of which the last bytes came together with this header
	if length <= c.free {
		return nil
	}
	if c.hold == nil || length > largest {
		return fmt.Errorf("%w: it has %d bytes", ErrTooLarge, length)
	}
	release, ok := c.hold(2 * int(length)) // a buffer that grows has room for more
	if !ok {
		return fmt.Errorf("%w: it has %d bytes, and others have sent too many that large", ErrTooLarge, length)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		release()
		return net.ErrClosed
	}
	c.release = release
	c.late = time.AfterFunc(pause+time.Duration(length/rate)*time.Second, func() { _ = c.Conn.Close() })
	return nil
}
