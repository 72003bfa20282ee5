package frames

import (
	"encoding/binary"
	"fmt"
	"sync"
)

// spdy finds the frames of SPDY/3.1, section 2.2, in one direction: eight bytes, of which the last three are the length of what
// follows. It also follows which streams they open and close.
type spdy struct {
	streams  *streams
	fromPeer bool // from the client

	head [8]byte
	read int
	id   []byte // of the stream of a control frame: the first four bytes that follow
}

// The types of control frames that matter, and the flag of the last frame of a stream.
const (
	control = 0x80

	synStream, synReply, rstStream, headers = 1, 2, 3, 8

	fin = 1
)

func (h *spdy) next(b byte) (length uint64, complete bool) {
	h.head[h.read] = b
	if h.read++; h.read < len(h.head) {
		return 0, false
	}
	h.read, h.id = 0, h.id[:0]
	return uint64(binary.BigEndian.Uint32(h.head[4:]) & 0xffffff), true
}

// follow is given what follows the head of a frame.
func (h *spdy) follow(b []byte) error {
	if h.head[0]&control == 0 {
		if h.head[4]&fin != 0 {
			h.streams.close(binary.BigEndian.Uint32(h.head[:]), h.fromPeer)
		}
		return nil
	}
	if len(h.id) == 4 {
		return nil
	}
	if h.id = append(h.id, b[:min(len(b), 4-len(h.id))]...); len(h.id) < 4 {
		return nil
	}
	id := binary.BigEndian.Uint32(h.id) &^ (control << 24)
	switch binary.BigEndian.Uint16(h.head[2:]) {
	case synStream:
		if err := h.streams.open(id); err != nil {
			return err
		}
	case rstStream:
		h.streams.reset(id)
		return nil
	case synReply, headers:
	default:
		return nil
	}
	if h.head[4]&fin != 0 {
		h.streams.close(id, h.fromPeer)
	}
	return nil
}

// mostStreams is how many streams a connection may have at a time: two for each of 256 that are forwarded, and as many that are about to
// be refused.
const mostStreams = 1024

// streams are those of one connection that are open, each with the sides that have closed theirs.
type streams struct {
	mu  sync.Mutex
	all map[uint32]sides
}

type sides struct{ client, server bool }

func (s *streams) open(id uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[uint32]sides{}
	}
	s.all[id] = sides{}
	if len(s.all) > mostStreams {
		return fmt.Errorf("more than %d streams are open", mostStreams)
	}
	return nil
}

func (s *streams) close(id uint32, byClient bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	closed, ok := s.all[id]
	if !ok {
		return
	}
	closed.client, closed.server = closed.client || byClient, closed.server || !byClient
	if s.all[id] = closed; closed.client && closed.server {
		delete(s.all, id)
	}
}

func (s *streams) reset(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
}
