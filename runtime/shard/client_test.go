package shard

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// otherSide answers one connection by hand, as a shard of another version would.
func otherSide(t *testing.T, answer func(protocol.Message, []byte) []protocol.Message) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for {
					m, body, err := protocol.Decode(conn)
					if err != nil {
						return
					}
					for _, reply := range answer(m, body) {
						frame, err := protocol.Encode(&reply, nil)
						if err != nil || reply.Op == "hang up" {
							return
						}
						conn.Write(frame)
					}
				}
			}()
		}
	}()
	return socket
}

func greets(m protocol.Message) []protocol.Message {
	return []protocol.Message{{Op: protocol.OpReply, Seq: m.Seq, Hello: &protocol.Hello{Version: 99, PID: 7, Capabilities: []string{"from the future"}}}}
}

func TestClient(t *testing.T) {
	socket := otherSide(t, func(m protocol.Message, body []byte) []protocol.Message {
		switch {
		case m.Op == protocol.OpHello:
			return append([]protocol.Message{{Op: "news of the future"}}, greets(m)...)
		case m.Op == protocol.OpStart: // the exit overtakes the answer
			c := protocol.Container{ID: m.Start.ID, ExitCode: len(body), State: protocol.Exited}
			return []protocol.Message{{Op: protocol.OpExit, Container: &c}, {Op: protocol.OpReply, Seq: m.Seq, Container: &c}}
		case m.Op == protocol.OpList:
			return []protocol.Message{{Op: "hang up"}}
		case m.Op == protocol.OpDelete:
			return nil
		}
		return []protocol.Message{{Op: protocol.OpReply, Seq: m.Seq, Error: protocol.EncodeError(errdefs.ErrNotImplemented)}}
	})
	exits := make(chan protocol.Container, 10)
	dial := func(t *testing.T) *Client {
		c, err := Dial(context.Background(), socket, func(c protocol.Container) { exits <- c })
		must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	t.Run("hears what the shard is", func(t *testing.T) {
		if got := dial(t).Hello(); got.Version != 99 || got.PID != 7 {
			t.Errorf("hello %+v", got)
		}
	})
	t.Run("sends the spec as it is and hears of the exit", func(t *testing.T) {
		got, err := dial(t).Start(context.Background(), protocol.Start{ID: "c", Spec: []byte("12345")})
		if err != nil || got.ExitCode != 5 {
			t.Errorf("%+v, %v", got, err)
		}
		if exit := <-exits; exit.ID != "c" {
			t.Errorf("exit %+v", exit)
		}
	})
	t.Run("is told what the shard cannot do", func(t *testing.T) {
		if err := dial(t).Shutdown(context.Background()); !errors.Is(err, errdefs.ErrNotImplemented) {
			t.Error(err)
		}
	})
	t.Run("gives up with its context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		if _, err := dial(t).Delete(ctx, "c"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	t.Run("is told when the shard is gone", func(t *testing.T) {
		c := dial(t)
		for range 2 {
			if _, err := c.List(context.Background()); !errors.Is(err, errdefs.ErrUnavailable) {
				t.Error(err)
			}
		}
		<-c.Done()
	})
	t.Run("is told when nobody listens", func(t *testing.T) {
		if _, err := Dial(context.Background(), socket+"x", nil); !errors.Is(err, errdefs.ErrUnavailable) {
			t.Error(err)
		}
	})
}

func TestRunningShardIsUsed(t *testing.T) {
	var lists atomic.Int32
	socket := otherSide(t, func(m protocol.Message, _ []byte) []protocol.Message {
		if m.Op == protocol.OpHello {
			return greets(m)
		}
		if lists.Add(1) == 1 {
			return []protocol.Message{{Op: "hang up"}}
		}
		return []protocol.Message{
			{
				Op: protocol.OpReply, Seq: m.Seq,
				Containers: []protocol.Container{{ID: "c", State: protocol.Exited, ExitCode: 4}, {ID: "d", State: protocol.Running}},
			},
		}
	})
	must(t, os.Rename(socket, protocol.SocketPath(filepath.Dir(socket))))
	exits := make(chan protocol.Container, 10)
	s, err := Open(context.Background(), Options{Dir: filepath.Dir(socket), Binary: "/does/not/exist", OnExit: func(c protocol.Container) { exits <- c }})
	must(t, err)
	defer s.Close()
	all, err := s.List(context.Background()) // the first connection breaks under it
	if err != nil || len(all) != 2 {
		t.Errorf("listed %+v, %v", all, err)
	}
	if exit := <-exits; exit.ID != "c" || exit.ExitCode != 4 {
		t.Errorf("told of %+v", exit)
	}
	must(t, s.Close())
	if _, err := s.List(context.Background()); !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
}

// A shard that dies while it is asked to end has agreed to nothing: it may hold containers.
func TestAShardThatDiesDuringShutdownIsReachedAgain(t *testing.T) {
	for range 50 {
		socket := otherSide(t, func(m protocol.Message, _ []byte) []protocol.Message {
			switch m.Op {
			case protocol.OpHello:
				return greets(m)
			case protocol.OpShutdown:
				return []protocol.Message{{Op: "hang up"}}
			}
			return []protocol.Message{{Op: protocol.OpReply, Seq: m.Seq}}
		})
		must(t, os.Rename(socket, protocol.SocketPath(filepath.Dir(socket))))
		s, err := Open(t.Context(), Options{Dir: filepath.Dir(socket), Binary: "/does/not/exist"})
		must(t, err)
		if err := s.Shutdown(t.Context()); !errors.Is(err, errdefs.ErrUnavailable) {
			t.Fatalf("shut down: %v", err)
		}
		_, err = s.List(t.Context())
		must(t, err)
		must(t, s.Close())
	}
}

// The daemon replaces a shard, once it holds nothing, that cannot do all that a new one can.
func TestWhichShardsAreOld(t *testing.T) {
	all := protocol.Capabilities()
	for _, tc := range []struct {
		name string
		can  []string
		old  bool
	}{
		{"of this version", all, false},
		{"of a later one", append(slices.Clone(all), "from the future"), false},
		{"of the first one", nil, true},
		{"of the one before", all[:len(all)-1], true},
		{"that cannot end a start that is under way", slices.DeleteFunc(slices.Clone(all), func(c string) bool { return c == protocol.CanCallOff }), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			socket := otherSide(t, func(m protocol.Message, _ []byte) []protocol.Message {
				return []protocol.Message{{Op: protocol.OpReply, Seq: m.Seq, Hello: &protocol.Hello{Version: 1, Capabilities: tc.can}}}
			})
			must(t, os.Rename(socket, protocol.SocketPath(filepath.Dir(socket))))
			s, err := Open(t.Context(), Options{Dir: filepath.Dir(socket), Binary: "/does/not/exist"})
			must(t, err)
			defer s.Close()
			if got := s.IsOld(); got != tc.old {
				t.Errorf("got %v", got)
			}
		})
	}
}
