package frames

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
	ours, theirs := net.Pipe()
	go send(theirs)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Upgrade", protocol)
	conn, buffered, err := Bound(takenOver{httptest.NewRecorder(), ours}, r, free, hold).(http.Hijacker).Hijack()
	if err != nil {
		t.Fatal(err)
	}
	return conn, buffered
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
	if got := Bound(w, httptest.NewRequest(http.MethodGet, "/", nil), 0, nil); got != http.ResponseWriter(w) {
		t.Errorf("it is %T", got)
	}
}

// control frames of SPDY: a head with the type and flags, and the stream with what belongs to it.
func controlFrame(kind, flags byte, id uint32) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0x80, 3, 0, kind, flags, 0, 0, 10}, id), make([]byte, 6)...)
}

func TestStreamsOfSPDYAreBounded(t *testing.T) {
	data := func(id uint32, flags byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, id), flags, 0, 0, 0)
	}
	for what, c := range map[string]struct {
		ofClient func(id uint32) []byte
		ofServer func(id uint32) []byte // nil: nothing
		cut      bool
	}{
		"never closed": {func(id uint32) []byte { return controlFrame(synStream, 0, id) }, nil, true},
		"closed by one side": {func(id uint32) []byte {
			return append(controlFrame(synStream, 0, id), data(id, fin)...)
		}, nil, true},
		"closed by one side at once": {func(id uint32) []byte { return controlFrame(synStream, fin, id) }, nil, true},
		"reset": {func(id uint32) []byte {
			return append(controlFrame(synStream, 0, id), controlFrame(rstStream, 0, id)...)
		}, nil, false},
		"reset by the server": {
			func(id uint32) []byte { return controlFrame(synStream, 0, id) },
			func(id uint32) []byte { return controlFrame(rstStream, 0, id) }, false,
		},
		"closed by both": {
			func(id uint32) []byte { return append(controlFrame(synStream, 0, id), data(id, fin)...) },
			func(id uint32) []byte { return append(controlFrame(synReply, 0, id), data(id, fin)...) }, false,
		},
		"closed by both, with the heads": {
			func(id uint32) []byte {
				return append(controlFrame(synStream, 0, id), controlFrame(headers, fin, id)...)
			},
			func(id uint32) []byte { return controlFrame(synReply, fin, id) }, false,
		},
	} {
		t.Run(what, func(t *testing.T) {
			const n = 2 * mostStreams
			conn, from := take(t, ofSPDY, OfSessions, nil, func(to net.Conn) {
				go func() { _, _ = io.Copy(io.Discard, to) }()
				for i := range uint32(n) {
					if _, err := to.Write(c.ofClient(2*i + 1)); err != nil {
						return
					}
				}
				to.Close()
			})
			defer conn.Close()
			var err error
			for i := uint32(0); err == nil && i < n; i++ {
				if _, err = io.ReadFull(from, make([]byte, len(c.ofClient(2*i+1)))); err == nil && c.ofServer != nil {
					_, _ = conn.Write(c.ofServer(2*i + 1))
				}
			}
			if (err != nil) != c.cut {
				t.Errorf("got %v", err)
			}
		})
	}
}
