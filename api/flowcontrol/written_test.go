package flowcontrol

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestWhereFramesEnd writes frames in pieces, as a writer with a buffer does.
func TestWhereFramesEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sent := []byte("HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Protocol: \x81\x01\r\n\r\n")
		ends := []int{len(sent)} // a piece ends with the answer, which is flushed
		var data []int
		for range rapid.IntRange(1, 5).Draw(rt, "frames") {
			code := rapid.SampledFrom([]byte{1, 2, 8, 9, 10}).Draw(rt, "code")
			size := rapid.SampledFrom([]int{0, 1, 125, 126, 65_535, 65_536, 70_000}).Draw(rt, "size")
			sent = append(sent, 0x80|code)
			switch {
			case size < 126:
				sent = append(sent, byte(size))
			case size < 1<<16:
				sent = binary.BigEndian.AppendUint16(append(sent, 126), uint16(size))
			default:
				sent = binary.BigEndian.AppendUint64(append(sent, 127), uint64(size))
			}
			sent = append(sent, make([]byte, size)...)
			if code < 8 {
				data = append(data, len(sent))
			}
		}
		for range rapid.IntRange(0, 20).Draw(rt, "pieces") {
			ends = append(ends, rapid.IntRange(1, len(sent)).Draw(rt, "end"))
		}
		ends = append(ends, len(sent))
		slices.Sort(ends)
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		defer ours.Close()
		calls, want, at := 0, 0, 0
		c := &frameConn{Conn: ours, written: func() { calls++ }}
		for _, end := range slices.Compact(ends) {
			if _, err := c.Write(sent[at:end]); err != nil {
				rt.Fatal(err)
			}
			if slices.ContainsFunc(data, func(of int) bool { return of > at && of <= end }) {
				want++
			}
			if at = end; calls != want {
				rt.Fatalf("%d calls after %d bytes, want %d; frames of data end at %v", calls, at, want, data)
			}
		}
	})
}
