package frames

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/moby/spdystream/spdy"
)

// endless is a stream from which can be read what the library has taken off the connection.
type endless struct{ id uint32 }

func (endless) Read(b []byte) (int, error) { return len(b), nil }
func (e endless) Identifier() uint32       { return e.id }

// What a client sends on a stream the library takes off the connection, whether somebody reads the stream or not. It is no more than
// is read, and a little beside it.
func TestUnreadStreamsAreBounded(t *testing.T) {
	const frame, frames = 60 << 10, 100
	const all = frame * frames
	of := func(id uint32) []wire.Frame {
		sent := []wire.Frame{opens(1, 0, errorStream(1)), opens(3, 0, errorStream(3))}
		for range frames {
			sent = append(sent, &wire.DataFrame{StreamId: wire.StreamId(id), Data: make([]byte, frame)})
		}
		return sent
	}
	for what, c := range map[string]struct {
		id   uint32
		use  func(ctx context.Context, conn net.Conn, stop <-chan struct{})
		most int
		cut  error
	}{
		"nobody asks for it": {1, func(context.Context, net.Conn, <-chan struct{}) {}, mostUnread, ErrUnread},
		"another one is asked for": {1, func(ctx context.Context, _ net.Conn, _ <-chan struct{}) {
			Reader(ctx, endless{3})
		}, mostUnread, ErrUnread},
		"somebody asks for it later": {1, func(ctx context.Context, _ net.Conn, _ <-chan struct{}) {
			time.Sleep(patience / 2)
			r, _ := Reader(ctx, endless{1})
			_, _ = io.CopyN(io.Discard, r, all)
		}, all, nil},
		"it is read slowly": {1, func(ctx context.Context, _ net.Conn, stop <-chan struct{}) {
			r, _ := Reader(ctx, endless{1})
			for buffer := make([]byte, 1<<10); ; {
				select {
				case <-stop:
					return
				case <-time.After(time.Minute):
					_, _ = r.Read(buffer)
				}
			}
		}, mostUnread + 60<<10, nil},
		"it is read no more": {1, func(ctx context.Context, _ net.Conn, _ <-chan struct{}) {
			_, end := Reader(ctx, endless{1})
			end()
		}, all, nil},
		"it was reset": {1, func(_ context.Context, conn net.Conn, _ <-chan struct{}) {
			_, _ = conn.Write(newClient(t).send(&wire.RstStreamFrame{StreamId: 1, Status: wire.Cancel}).take())
		}, all, nil},
		"it does not exist": {5, func(context.Context, net.Conn, <-chan struct{}) {}, all, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := newClient(t).send(of(c.id)...).take()
				conn, from, ctx := takeOf(t, ofSPDY, OfSessions, nil, func(to net.Conn) {
					go func() { _, _ = io.Copy(io.Discard, to) }()
					_, _ = to.Write(sent)
				})
				got, ended, stop := 0, make(chan error, 1), make(chan struct{})
				go func() {
					for buffer := make([]byte, 4<<10); ; {
						n, err := from.Read(buffer)
						if got += n; err != nil {
							ended <- err
							return
						}
					}
				}()
				synctest.Wait() // until the streams are open
				go c.use(ctx, conn, stop)
				time.Sleep(time.Hour)
				synctest.Wait()
				const more = 4<<10 + 2<<10 // of a read, and heads
				if got > c.most+more || c.most == all && got < all {
					t.Errorf("%d bytes of %d were read, want %d", got, len(sent), c.most)
				}
				if (len(ended) == 1) != (c.cut != nil) {
					t.Errorf("cut: %t", len(ended) == 1)
				}
				conn.Close()
				if err := <-ended; c.cut != nil && !errors.Is(err, c.cut) {
					t.Error(err)
				}
				close(stop)
			})
		})
	}
}

// What was sent before a stream was closed or reset counts until it is read.
func TestClosedStreamsAreCounted(t *testing.T) {
	for what, end := range map[string]func(s *streams){
		"closed by both":      func(s *streams) { s.close(1, true); s.close(1, false) },
		"reset by the client": func(s *streams) { s.reset(1, true) },
	} {
		s := &streams{}
		_ = s.open(1)
		s.came(1, 10)
		if end(s); s.unread != 10 || len(s.all) != 1 {
			t.Errorf("%s: %d bytes of %d streams", what, s.unread, len(s.all))
		}
		_, _ = reader{endless{1}, s}.Read(make([]byte, 10))
		if s.unread != 0 || len(s.all) != 0 {
			t.Errorf("%s, and read: %d bytes of %d streams", what, s.unread, len(s.all))
		}
	}
}

func TestReaderOfAnotherConnection(t *testing.T) {
	of := endless{1}
	if r, end := Reader(t.Context(), of); r != io.Reader(of) {
		t.Errorf("it is %T", r)
	} else {
		end()
	}
}
