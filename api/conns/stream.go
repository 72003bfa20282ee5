package conns

import (
	"context"
	"time"
)

// Stream is a request on an HTTP/2 connection, which may have hundreds at a time. It lasts until its stream ends: that is when
// the client has read the answer, perhaps long after the request was served. It is loose while it holds no place of those that
// the clients of a listener share.
type Stream struct {
	conn  *Conn
	since time.Duration // when it became loose, from the beginning of the table
	loose bool
	over  bool
}

type streamKey struct{}

// WithStream keeps a stream for its request.
func WithStream(ctx context.Context, s *Stream) context.Context {
	return context.WithValue(ctx, streamKey{}, s)
}

// StreamFrom returns the stream of a request; nil if it has none.
func StreamFrom(ctx context.Context) *Stream {
	s, _ := ctx.Value(streamKey{}).(*Stream)
	return s
}

// Begin returns a new stream, which is loose.
func (c *Conn) Begin() *Stream {
	s := &Stream{conn: c}
	s.set(true)
	return s
}

// Broken says that a stream has ended before its request was answered. Whoever is hung up on for that is so at once, though very many
// may wait for the table: that learns it from the server.
func (c *Conn) Broken() {
	if !c.breaks.Allow() {
		_ = c.Conn.Close()
	}
}

// Hold says that the stream has a place, or waits for one, until Release. Nil has none.
func (s *Stream) Hold() { s.set(false) }

// Release says that the stream has no place.
func (s *Stream) Release() { s.set(true) }

// End says that the stream is no more. Its client may have ended it while it is served.
func (s *Stream) End() {
	s.set(false)
	s.conn.table.change(func() { s.over = true })
}

func (s *Stream) set(loose bool) {
	if s == nil {
		return
	}
	s.conn.table.change(func() {
		c, t := s.conn, s.conn.table
		if c.gone || s.over || s.loose == loose {
			return
		}
		if s.loose = loose; loose {
			s.since = time.Since(t.born)
			c.loose, t.loose, c.since = c.loose+1, t.loose+1, c.since+s.since
			t.with[c] = struct{}{}
			return
		}
		c.loose, t.loose, c.since = c.loose-1, t.loose-1, c.since-s.since
		if c.loose == 0 {
			delete(t.with, c)
		}
	})
}

// loosest returns the connection whose loose streams have been that for longest, all together; nil if that is not long. A client that
// reads what it is sent has few of them, and those for moments.
func (t *Table) loosest() (found *Conn) {
	now, most := time.Since(t.born), looseTime
	for c := range t.with {
		if taken := time.Duration(c.loose)*now - c.since; taken >= most {
			found, most = c, taken
		}
	}
	return found
}

// Loose returns how many streams hold no place.
func (t *Table) Loose() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loose
}
