package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"pgregory.net/rapid"
)

func TestFramesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := message{Op: opStart, Seq: rapid.Uint64().Draw(t, "seq"), ID: rapid.String().Draw(t, "id"), Signal: rapid.Int().Draw(t, "signal"), Start: &Start{Labels: map[string]string{"a": rapid.String().Draw(t, "label")}}}
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		frame, err := encode(&sent, body)
		if err != nil {
			t.Fatal(err)
		}
		r := bytes.NewReader(append(frame, frame...))
		for range 2 {
			got, gotBody, err := decode(r)
			if err != nil || !reflect.DeepEqual(got, sent) || !bytes.Equal(gotBody, body) {
				t.Fatalf("got %+v, %q, %v", got, gotBody, err)
			}
		}
		if _, _, err := decode(r); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	frame, _ := encode(&message{Op: opList, Seq: 3}, []byte("body"))
	f.Add(frame)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= 4 && binary.BigEndian.Uint32(data) > 1<<20 {
			return // only costs memory
		}
		_, _, _ = decode(bytes.NewReader(data))
	})
}

func TestErrorsKeepTheirClass(t *testing.T) {
	for _, class := range []error{errdefs.ErrNotFound, errdefs.ErrInvalidArgument, errdefs.ErrFailedPrecondition, errdefs.ErrUnavailable, errdefs.ErrNotImplemented, errdefs.ErrUnknown} {
		if got := fromWire(toWire(errors.Join(errors.New("words"), class))); !errors.Is(got, class) {
			t.Errorf("%v became %v", class, got)
		}
	}
	var start *StartError
	if got := fromWire(toWire(&StartError{ID: "c", Message: "no such command"})); !errors.As(got, &start) || *start != (StartError{"c", "no such command"}) || !errors.Is(got, errdefs.ErrFailedPrecondition) {
		t.Errorf("start error became %v", got)
	}
	if fromWire(toWire(nil)) != nil {
		t.Error("no error became one")
	}
}

// otherSide answers one connection by hand, as a shard of another version would.
func otherSide(t *testing.T, answer func(message, []byte) []message) string {
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
					m, body, err := decode(conn)
					if err != nil {
						return
					}
					for _, reply := range answer(m, body) {
						frame, err := encode(&reply, nil)
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

func greets(m message) []message {
	return []message{{Op: opReply, Seq: m.Seq, Hello: &Hello{Version: 99, PID: 7, Capabilities: []string{"from the future"}}}}
}

func TestClient(t *testing.T) {
	socket := otherSide(t, func(m message, body []byte) []message {
		switch {
		case m.Op == opHello:
			return append([]message{{Op: "news of the future"}}, greets(m)...)
		case m.Op == opStart: // the exit overtakes the answer
			c := Container{ID: m.Start.ID, ExitCode: len(body), State: Exited}
			return []message{{Op: opExit, Container: &c}, {Op: opReply, Seq: m.Seq, Container: &c}}
		case m.Op == opList:
			return []message{{Op: "hang up"}}
		case m.Op == opDelete:
			return nil
		}
		return []message{{Op: opReply, Seq: m.Seq, Error: toWire(errdefs.ErrNotImplemented)}}
	})
	exits := make(chan Container, 10)
	dial := func(t *testing.T) *Client {
		c, err := Dial(context.Background(), socket, func(c Container) { exits <- c })
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
		got, err := dial(t).Start(context.Background(), Start{ID: "c", Spec: []byte("12345")})
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
	socket := otherSide(t, func(m message, _ []byte) []message {
		if m.Op == opHello {
			return greets(m)
		}
		if lists.Add(1) == 1 {
			return []message{{Op: "hang up"}}
		}
		return []message{{Op: opReply, Seq: m.Seq, Containers: []Container{{ID: "c", State: Exited, ExitCode: 4}, {ID: "d", State: Running}}}}
	})
	must(t, os.Rename(socket, socketPath(filepath.Dir(socket))))
	exits := make(chan Container, 10)
	s, err := Launch(context.Background(), Options{Dir: filepath.Dir(socket), Binary: "/does/not/exist", OnExit: func(c Container) { exits <- c }})
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
