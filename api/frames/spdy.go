package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	wire "github.com/moby/spdystream/spdy"
)

// spdy finds the frames of SPDY/3.1, section 2.2, in one direction: eight bytes, of which the last three are the length of what
// follows. It also follows which streams they open and close, and looks into the headers of those that the client opens.
type spdy struct {
	streams  *streams
	fromPeer bool // from the client

	head   [8]byte
	read   int
	length int    // of what follows
	id     []byte // of the stream of a control frame: the first four bytes that follow

	headers headers
	block   []byte // of a frame with headers from the client, what has come after its head
}

// The types of control frames that matter, and the flag of the last frame of a stream.
const (
	control = 0x80

	synStream, synReply, rstStream, withHeaders = 1, 2, 3, 8

	fin = 1
)

func (h *spdy) next(b byte) (length uint64, complete bool) {
	h.head[h.read] = b
	if h.read++; h.read < len(h.head) {
		return 0, false
	}
	h.read, h.id, h.block = 0, h.id[:0], h.block[:0]
	h.length = int(binary.BigEndian.Uint32(h.head[4:]) & 0xffffff)
	return uint64(h.length), true
}

// withheld implements header: headers are decompressed as they come, so that nobody gets to read a part of them.
func (h *spdy) withheld() int {
	if len(h.block) < h.length {
		return len(h.block)
	}
	return 0
}

// follow is given what follows the head of a frame.
func (h *spdy) follow(b []byte) error {
	if h.head[0]&control == 0 {
		if h.fromPeer {
			h.streams.came(binary.BigEndian.Uint32(h.head[:]), len(b))
		}
		if h.head[4]&fin != 0 {
			h.streams.close(binary.BigEndian.Uint32(h.head[:]), h.fromPeer)
		}
		return nil
	}
	if h.fromPeer {
		if err := h.control(b); err != nil {
			return err
		}
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
		h.streams.reset(id, h.fromPeer)
		return nil
	case synReply, withHeaders:
	default:
		return nil
	}
	if h.head[4]&fin != 0 {
		h.streams.close(id, h.fromPeer)
	}
	return nil
}

// longestControl is how many bytes may follow the head of a control frame. Those of clients have a hundred.
const longestControl = 1 << 10

// control is given what follows the head of a control frame of the client.
func (h *spdy) control(b []byte) error {
	if h.length > longestControl {
		return fmt.Errorf("%w: it has %d bytes, and controls the connection", ErrTooLarge, h.length)
	}
	switch binary.BigEndian.Uint16(h.head[2:]) {
	case synStream, synReply, withHeaders:
	default:
		return nil
	}
	if h.block = append(h.block, b...); len(h.block) < h.length {
		return nil
	}
	return h.headers.check(h.head[:], h.block)
}

const (
	// longestHeaders is how many bytes the headers of a stream may have once they are decompressed, which makes a thousand of one, and
	// forValue what each of their values counts beside its own. The library keeps them for as long as the stream is open.
	longestHeaders, forValue = 1 << 10, 16
	// mostHeaders is how many they may be.
	mostHeaders = 16
)

// headers decompresses the headers that a client sends, as the library is going to do: each block continues the one before.
type headers struct {
	in     bytes.Buffer
	framer *wire.Framer
}

// check refuses a frame whose headers are too large.
func (h *headers) check(head, block []byte) error {
	if h.framer == nil {
		framer, err := wire.NewFramerWithOptions(io.Discard, &h.in, wire.WithMaxHeaderCount(mostHeaders), wire.WithMaxHeaderFieldSize(longestHeaders))
		if err != nil {
			return err
		}
		h.framer = framer
	}
	h.in.Write(head)
	h.in.Write(block)
	frame, err := h.framer.ReadFrame()
	if err != nil {
		return errors.Join(ErrHeaders, err)
	}
	var all http.Header
	switch frame := frame.(type) {
	case *wire.SynStreamFrame:
		all = frame.Headers
	case *wire.SynReplyFrame:
		all = frame.Headers
	case *wire.HeadersFrame:
		all = frame.Headers
	}
	size := 0
	for name, values := range all {
		size += len(name)
		for _, v := range values {
			size += forValue + len(v)
		}
	}
	if size > longestHeaders {
		return fmt.Errorf("%w: they have %d bytes", ErrHeaders, size)
	}
	return nil
}
