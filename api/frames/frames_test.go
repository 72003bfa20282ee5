package frames

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/moby/spdystream/spdy"
	"pgregory.net/rapid"
)

// takenOver is the ResponseWriter of a connection that a library takes over.
type takenOver struct {
	http.ResponseWriter
	conn net.Conn
}

func (w takenOver) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r := bufio.NewReader(w.conn)
	_, _ = r.Peek(1) // some of what the client sends is read already
	return w.conn, bufio.NewReadWriter(r, bufio.NewWriter(w.conn)), nil
}

const (
	ofWebSocket = "websocket"
	ofSPDY      = "SPDY/3.1"
)

// head returns the head of a frame that announces some bytes.
func head(protocol string, bytes int, masked bool) []byte {
	if protocol == ofSPDY {
		return binary.BigEndian.AppendUint32([]byte{0, 0, 0, 1}, uint32(bytes))
	}
	head := []byte{0x82}
	switch {
	case bytes < 126:
		head = append(head, byte(bytes))
	case bytes < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(bytes))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(bytes))
	}
	if masked {
		head[1] |= 0x80
		head = append(head, 1, 2, 3, 4)
	}
	return head
}

// take returns a connection on which a client sends, as a library gets it.
func take(t interface{ Fatal(...any) }, protocol string, free uint64, hold Hold, send func(to net.Conn)) (net.Conn, io.Reader) {
	conn, from, _ := takeOf(t, protocol, free, hold, send)
	return conn, from
}

// takeOf also returns the context of its request.
func takeOf(
	t interface{ Fatal(...any) }, protocol string, free uint64, hold Hold, send func(to net.Conn),
) (net.Conn, io.Reader, context.Context) {
	ours, theirs := net.Pipe()
	go send(theirs)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Upgrade", protocol)
	w, r := Bound(takenOver{httptest.NewRecorder(), ours}, r, free, hold)
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Fatal(err)
	}
	return conn, buffered, r.Context()
}

// TestFramesPassAsTheyAre sends frames in pieces: those that may be that long arrive, and what is held for them is given back.
func TestFramesPassAsTheyAre(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		protocol := rapid.SampledFrom([]string{ofWebSocket, ofSPDY}).Draw(rt, "protocol")
		free := rapid.SampledFrom([]int{10, OfStreams, OfSessions}).Draw(rt, "free")
		var sent []byte
		most, large := 0, 0
		for range rapid.IntRange(1, 5).Draw(rt, "frames") {
			bytes := rapid.SampledFrom([]int{0, 1, 10, 11, 125, 126, 4096, 4097, 65_535, 65_536, 65_537, 300_000}).Draw(rt, "bytes")
			sent = append(append(sent, head(protocol, bytes, rapid.Bool().Draw(rt, "masked"))...), make([]byte, bytes)...)
			if most = max(most, bytes); bytes > free {
				large++
			}
		}
		var held, holds atomic.Int64
		conn, from := take(rt, protocol, uint64(free), func(n int) (func(), bool) {
			holds.Add(1)
			held.Add(int64(n))
			return func() { held.Add(-int64(n)) }, true
		}, func(to net.Conn) {
			for _, piece := range pieces(rt, sent) {
				if _, err := to.Write(piece); err != nil {
					return
				}
			}
			to.Close()
		})
		defer conn.Close()
		got, err := io.ReadAll(from)
		switch {
		case protocol == ofSPDY && most > free:
			if !errors.Is(err, ErrTooLarge) {
				rt.Fatalf("%d bytes: %v", most, err)
			}
		case err != nil || !slices.Equal(got, sent) || int(holds.Load()) != large:
			rt.Fatalf("%d of %d bytes, %d of %d held: %v", len(got), len(sent), holds.Load(), large, err)
		}
		conn.Close()
		if held.Load() != 0 {
			rt.Fatalf("%d bytes are held at the end", held.Load())
		}
	})
}

func pieces(rt *rapid.T, all []byte) (cut [][]byte) {
	for len(all) > 0 {
		n := min(len(all), rapid.SampledFrom([]int{1, 3, 9, 1000, 100_000}).Draw(rt, "piece"))
		cut, all = append(cut, all[:n]), all[n:]
	}
	return cut
}

func TestFramesThatAreRefused(t *testing.T) {
	plenty := func(int) (func(), bool) { return func() {}, true }
	for what, c := range map[string]struct {
		protocol string
		bytes    int
		hold     Hold
	}{
		"of SPDY":                       {ofSPDY, 1<<24 - 1, plenty},
		"of WebSocket, beyond all":      {ofWebSocket, 1<<62 + 1, plenty},
		"a little beyond":               {ofWebSocket, largest + 1, plenty},
		"for which there is no memory":  {ofWebSocket, 1 << 20, func(int) (func(), bool) { return nil, false }},
		"where nothing is to be sent":   {ofWebSocket, 1 << 20, nil},
		"of a length that is negative":  {ofWebSocket, -1, plenty},
		"of a protocol of another name": {"HTTP/7", 1 << 20, plenty},
	} {
		t.Run(what, func(t *testing.T) {
			protocol := c.protocol
			if protocol == "HTTP/7" {
				protocol = ofSPDY
			}
			cut := make(chan error, 1)
			conn, from := take(t, c.protocol, OfSessions, c.hold, func(to net.Conn) {
				small := append(head(protocol, 5, true), "12345"...)
				if protocol == ofSPDY {
					small = append(head(protocol, 5, false), "12345"...)
				}
				first := head(protocol, c.bytes, true)
				if c.bytes < 0 {
					first = append([]byte{0x82, 127}, slices.Repeat([]byte{0xff}, 8)...)
				}
				_, _ = to.Write(append(small, first...))
				_, err := io.Copy(io.Discard, to)
				cut <- err
			})
			defer conn.Close()
			if _, err := io.ReadAll(from); !errors.Is(err, ErrTooLarge) {
				t.Errorf("got %v", err)
			}
			if err := <-cut; err != nil {
				t.Errorf("the client sees %v", err)
			}
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, ErrTooLarge) {
				t.Errorf("later: %v", err)
			}
		})
	}
}

// A large frame that does not come is not waited for, and one that nobody reads is no reason to hold on to it.
func TestLargeFramesThatDoNotCome(t *testing.T) {
	for what, c := range map[string]struct {
		sent int // of a megabyte
		cut  bool
	}{"it comes": {1 << 20, false}, "the last byte does not": {1<<20 - 1, true}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var held atomic.Int64
				conn, from := take(t, ofWebSocket, OfSessions, func(n int) (func(), bool) {
					held.Add(int64(n))
					return func() { held.Add(-int64(n)) }, true
				}, func(to net.Conn) { _, _ = to.Write(append(head(ofWebSocket, 1<<20, true), make([]byte, c.sent)...)) })
				read := make(chan error, 1)
				go func() {
					_, err := io.ReadAll(from)
					read <- err
				}()
				time.Sleep(time.Hour)
				synctest.Wait()
				if (len(read) == 1) != c.cut {
					t.Errorf("cut: %t", len(read) == 1)
				}
				conn.Close()
				<-read
				if held.Load() != 0 {
					t.Errorf("%d bytes are held", held.Load())
				}
			})
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	w := httptest.NewRecorder()
	if got, _ := Bound(w, httptest.NewRequest(http.MethodGet, "/", nil), 0, nil); got != http.ResponseWriter(w) {
		t.Errorf("it is %T", got)
	}
}

// client makes the frames that a client of SPDY sends on one connection.
type client struct {
	sent   bytes.Buffer
	framer *wire.Framer
}

func newClient(t *testing.T) *client {
	c := &client{}
	framer, err := wire.NewFramer(&c.sent, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.framer = framer
	return c
}

func (c *client) send(frames ...wire.Frame) *client {
	for _, f := range frames {
		_ = c.framer.WriteFrame(f) // to memory
	}
	return c
}

// take returns what was sent since the last call.
func (c *client) take() []byte {
	defer c.sent.Reset()
	return bytes.Clone(c.sent.Bytes())
}

func opens(id uint32, flags wire.ControlFlags, with http.Header) *wire.SynStreamFrame {
	return &wire.SynStreamFrame{CFHeader: wire.ControlFrameHeader{Flags: flags}, StreamId: wire.StreamId(id), Headers: with}
}

// errorStream are headers as those who forward ports send.
func errorStream(id uint32) http.Header {
	return http.Header{"Streamtype": {"error"}, "Port": {"65535"}, "Requestid": {strconv.Itoa(int(id))}}
}

func TestStreamsOfSPDYAreBounded(t *testing.T) {
	syn := func(id uint32, flags wire.ControlFlags) wire.Frame { return opens(id, flags, errorStream(id)) }
	rst := func(id uint32) wire.Frame {
		return &wire.RstStreamFrame{StreamId: wire.StreamId(id), Status: wire.Cancel}
	}
	end := func(id uint32) wire.Frame {
		return &wire.DataFrame{StreamId: wire.StreamId(id), Flags: wire.DataFlagFin}
	}
	reply := func(id uint32, flags wire.ControlFlags) wire.Frame {
		return &wire.SynReplyFrame{CFHeader: wire.ControlFrameHeader{Flags: flags}, StreamId: wire.StreamId(id)}
	}
	last := func(id uint32) wire.Frame {
		return &wire.HeadersFrame{CFHeader: wire.ControlFrameHeader{Flags: wire.ControlFlagFin}, StreamId: wire.StreamId(id)}
	}
	type made = func(id uint32) []wire.Frame
	for what, c := range map[string]struct {
		ofClient made
		ofServer made // nil: nothing
		cut      bool
	}{
		"never closed":               {func(id uint32) []wire.Frame { return []wire.Frame{syn(id, 0)} }, nil, true},
		"closed by one side":         {func(id uint32) []wire.Frame { return []wire.Frame{syn(id, 0), end(id)} }, nil, true},
		"closed by one side at once": {func(id uint32) []wire.Frame { return []wire.Frame{syn(id, wire.ControlFlagFin)} }, nil, true},
		"reset":                      {func(id uint32) []wire.Frame { return []wire.Frame{syn(id, 0), rst(id)} }, nil, false},
		"reset by the server": {
			func(id uint32) []wire.Frame { return []wire.Frame{syn(id, 0)} }, func(id uint32) []wire.Frame { return []wire.Frame{rst(id)} }, false,
		},
		"closed by both": {
			func(id uint32) []wire.Frame { return []wire.Frame{syn(id, 0), end(id)} },
			func(id uint32) []wire.Frame { return []wire.Frame{reply(id, 0), end(id)} }, false,
		},
		"closed by both, with the heads": {
			func(id uint32) []wire.Frame { return []wire.Frame{syn(id, 0), last(id)} },
			func(id uint32) []wire.Frame { return []wire.Frame{reply(id, wire.ControlFlagFin)} }, false,
		},
	} {
		t.Run(what, func(t *testing.T) {
			const n = 2 * mostStreams
			ours, theirs := newClient(t), newClient(t)
			var sent [n][]byte
			for i := range uint32(n) {
				sent[i] = ours.send(c.ofClient(2*i + 1)...).take()
			}
			conn, from := take(t, ofSPDY, OfSessions, nil, func(to net.Conn) {
				go func() { _, _ = io.Copy(io.Discard, to) }()
				for _, b := range sent {
					if _, err := to.Write(b); err != nil {
						return
					}
				}
				to.Close()
			})
			defer conn.Close()
			var err error
			for i := uint32(0); err == nil && i < n; i++ {
				if _, err = io.ReadFull(from, make([]byte, len(sent[i]))); err == nil && c.ofServer != nil {
					_, _ = conn.Write(theirs.send(c.ofServer(2*i + 1)...).take())
				}
			}
			if (err != nil) != c.cut {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Headers are decompressed before anybody else sees them: 60 kB are 60 MB, which the library keeps for as long as a stream is open.
func TestHeadersOfSPDYAreBounded(t *testing.T) {
	many := http.Header{}
	for i := range mostHeaders + 1 {
		many.Set("x-"+strconv.Itoa(i), "")
	}
	for what, c := range map[string]struct {
		with http.Header
		of   error
	}{
		"as clients send":                    {errorStream(1), nil},
		"none":                               {http.Header{}, nil},
		"one that is long":                   {http.Header{"X": {strings.Repeat("a", longestHeaders)}}, ErrHeaders},
		"one that is very long":              {http.Header{"X": {strings.Repeat("a", 900<<10)}}, ErrHeaders},
		"megabytes":                          {http.Header{"X": {strings.Repeat("a", 3<<20)}}, ErrTooLarge},
		"a long name":                        {http.Header{strings.Repeat("a", 900<<10): {"b"}}, ErrHeaders},
		"many":                               {many, ErrHeaders},
		"one that is divided into very many": {http.Header{"X": {strings.Repeat("\x00", longestHeaders/2)}}, ErrHeaders},
	} {
		for kind, frame := range map[string]wire.Frame{ // each continues what was compressed before
			"opened": opens(3, 0, c.with), "replied": &wire.SynReplyFrame{StreamId: 1, Headers: c.with},
			"later": &wire.HeadersFrame{StreamId: 1, Headers: c.with},
		} {
			t.Run(what+", "+kind, func(t *testing.T) {
				of := newClient(t).send(opens(1, 0, errorStream(0)))
				begins := len(of.sent.Bytes())
				sent := of.send(frame, opens(5, 0, errorStream(5))).take()
				conn, from := take(t, ofSPDY, OfSessions, nil, func(to net.Conn) {
					for _, b := range sent { // so that each part of a frame is there alone
						if _, err := to.Write([]byte{b}); err != nil {
							return
						}
					}
					to.Close()
				})
				defer conn.Close()
				got, err := io.ReadAll(from)
				if !errors.Is(err, c.of) || c.of == nil && !bytes.Equal(got, sent) || c.of != nil && len(got) > begins+len(frameHead) {
					t.Errorf("%d of %d bytes: %v", len(got), len(sent), err)
				}
			})
		}
	}
}

// A control frame is never long, of whatever kind it is.
func TestControlFramesAreBounded(t *testing.T) {
	for kind := range byte(16) {
		conn, from := take(t, ofSPDY, OfSessions, nil, func(to net.Conn) {
			_, _ = to.Write(append([]byte{0x80, 3, 0, kind, 0, 0, 4, 1}, make([]byte, longestControl+1)...))
			to.Close()
		})
		if got, err := io.ReadAll(from); !errors.Is(err, ErrTooLarge) || len(got) > 0 {
			t.Errorf("of the kind %d: %d bytes, %v", kind, len(got), err)
		}
		conn.Close()
	}
}

// frameHead is as long as the head of a frame of SPDY.
var frameHead [8]byte
