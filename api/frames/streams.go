package frames

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// mostStreams is how many streams a connection may have at a time: two for each of 256 that are forwarded, and as many that are
	// about to be refused.
	mostStreams = 1024
	// mostUnread is how many bytes of them may have come that nobody has read. Then nothing more is read of the connection. The library
	// by itself would hold 250 frames.
	mostUnread = 256 << 10
	// patience is how long the connection waits then for somebody to read a stream that nobody has asked for.
	patience = 30 * time.Second
)

// ErrUnread is why a connection has ended on which a client has sent much where nobody reads.
var ErrUnread = errors.New("too much was sent on streams that are not read")

// streams are those of one connection that are open, each with the sides that have closed theirs, and what has come of them.
type streams struct {
	mu     sync.Mutex
	all    map[uint32]sides
	unread int           // of all of them
	closed bool          // the connection is
	fewer  chan struct{} // closed when unread has become less, or the connection is closed; nil: nobody waits
}

type sides struct {
	client, server bool
	unread         int
	read           bool // somebody reads it, or did
	over           bool // nobody does any more: what comes is dropped
}

func (s *streams) open(id uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[uint32]sides{}
	}
	if _, ok := s.all[id]; !ok {
		s.all[id] = sides{}
	}
	if len(s.all) > mostStreams {
		return fmt.Errorf("more than %d streams are open", mostStreams)
	}
	return nil
}

func (s *streams) close(id uint32, byClient bool) {
	s.change(id, func(of *sides) { of.client, of.server = of.client || byClient, of.server || !byClient })
}

// reset closes both sides. What a client has sent before it did so is still to be read.
func (s *streams) reset(id uint32, byClient bool) {
	s.change(id, func(of *sides) { of.client, of.server, of.over = true, true, of.over || !byClient })
}

// came notes what the client has sent.
func (s *streams) came(id uint32, bytes int) { s.change(id, func(of *sides) { of.unread += bytes }) }

// change changes what is known of a stream, and forgets one that both sides have closed once nothing of it is left to be read.
func (s *streams) change(id uint32, edit func(of *sides)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, ok := s.all[id]
	if !ok {
		return
	}
	was := of.unread
	if edit(&of); of.over {
		of.unread = 0
	}
	if s.all[id] = of; of.client && of.server && of.unread <= 0 {
		delete(s.all, id)
	}
	if s.unread += of.unread - was; of.unread < was {
		s.wake()
	}
}

func (s *streams) wake() {
	if s.fewer != nil {
		close(s.fewer)
		s.fewer = nil
	}
}

// end wakes those who wait when the connection is closed.
func (s *streams) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake()
}

// wait waits until more may come.
func (s *streams) wait() error {
	var late <-chan time.Time
	for {
		fewer, unasked := s.full()
		switch {
		case fewer == nil:
			return nil
		case late == nil && unasked:
			timer := time.NewTimer(patience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-fewer:
		case <-late:
			if _, unasked := s.full(); unasked {
				return ErrUnread
			}
			late = nil
		}
	}
}

// full returns what is closed when there is less that is unread, nil if there is room for more, and whether some of it is of a stream
// that nobody has asked for.
func (s *streams) full() (fewer <-chan struct{}, unasked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.unread <= mostUnread {
		return nil, false
	}
	for _, of := range s.all {
		unasked = unasked || !of.read && of.unread > 0
	}
	if s.fewer == nil {
		s.fewer = make(chan struct{})
	}
	return s.fewer, unasked
}

type streamsKey struct{}

// Stream is a stream of SPDY.
type Stream interface {
	io.Reader
	Identifier() uint32
}

// Reader returns what is to read a stream on a connection of Bound, by whose request ctx is: so more can come. Its end is called when
// nobody reads it any more.
func Reader(ctx context.Context, stream Stream) (r io.Reader, end func()) {
	s, ok := ctx.Value(streamsKey{}).(*streams)
	if !ok {
		return stream, func() {}
	}
	id := stream.Identifier()
	s.change(id, func(of *sides) { of.read = true })
	return reader{stream, s}, func() { s.change(id, func(of *sides) { of.over = true }) }
}

type reader struct {
	Stream
	of *streams
}

func (r reader) Read(b []byte) (int, error) {
	n, err := r.Stream.Read(b)
	r.of.change(r.Identifier(), func(of *sides) { of.unread -= n })
	return n, err
}
