package frames

import "encoding/binary"

// webSocket finds the frames of RFC 6455, section 5.2, which those of clients have masked.
type webSocket struct{ head []byte }

func (h *webSocket) next(b byte) (length uint64, complete bool) {
	h.head = append(h.head, b)
	length, complete = payload(h.head)
	if complete {
		h.head = h.head[:0]
	}
	return length, complete
}

func (*webSocket) follow([]byte) error { return nil }

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
	head []byte // as far as it is known
	left uint64 // of the payload
}

// Pass takes in what is sent next, and reports whether a frame with data ends in it. Control frames, such as the answer to a
// ping, are sent between the others, by another goroutine.
func (f *Sent) Pass(b []byte) (ended bool) {
	for len(b) > 0 {
		if f.left == 0 {
			f.head = append(f.head, b[0])
			b = b[1:]
			length, ok := payload(f.head)
			if !ok {
				continue
			}
			f.left = length
		}
		n := min(f.left, uint64(len(b)))
		f.left -= n
		b = b[n:]
		if f.left == 0 {
			const control = 8 // or a higher number
			ended = ended || f.head[0]&0xf < control
			f.head = f.head[:0]
		}
	}
	return ended
}
