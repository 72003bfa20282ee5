package frames

import "encoding/binary"

// webSocket finds the frames of RFC 6455, section 5.2, which those of clients have masked.
type webSocket struct {
	head  []byte // as far as it has come
	data  bool   // the frame has data: it does not control the connection
	left  uint64 // of its payload
	ended bool   // one with data has ended
}

func (h *webSocket) next(b byte) (length uint64, complete bool) {
	h.head = append(h.head, b)
	length, complete = payload(h.head)
	if complete {
		const control = 8 // or a higher number
		h.data, h.left, h.head = h.head[0]&0xf < control, length, h.head[:0]
	}
	return length, complete
}

func (h *webSocket) follow(b []byte) error {
	h.left -= uint64(len(b))
	h.ended = h.ended || h.data && h.left == 0
	return nil
}

// withheld implements header.
func (*webSocket) withheld() int { return 0 }

// payload returns the length that the head of a frame says, once all of the head is there.
func payload(head []byte) (length uint64, ok bool) {
	const of16, of64, masked, mask = 126, 127, 0x80, 4 // the length follows, in so many bits
	if len(head) < 2 {
		return 0, false
	}
	length, more := uint64(head[1]&^masked), head[2:]
	if head[1]&masked != 0 {
		if len(more) < mask {
			return 0, false
		}
		more = more[:len(more)-mask]
	}
	switch {
	case length < of16:
		return length, len(more) == 0
	case length == of16 && len(more) == 2:
		return uint64(binary.BigEndian.Uint16(more)), true
	case length == of64 && len(more) == 8:
		return binary.BigEndian.Uint64(more), true
	}
	return 0, false
}

// Sent follows the frames that a WebSocket server sends. The zero value is at the beginning of one.
type Sent struct {
	frames frames
	of     webSocket
}

// Pass takes in what is sent next, and reports whether a frame with data ends in it. Control frames, such as the answer to a
// ping, are sent between the others, by another goroutine.
func (f *Sent) Pass(b []byte) (ended bool) {
	f.frames.header, f.of.ended = &f.of, false
	_ = f.frames.pass(b) // it admits any
	return f.of.ended
}
