package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"pgregory.net/rapid"
)

func TestFramesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := Message{
			Op: OpStart, Seq: rapid.Uint64().Draw(t, "seq"), ID: rapid.String().Draw(t, "id"),
			Signal: rapid.Int().Draw(t, "signal"), Start: &Start{Labels: map[string]string{"a": rapid.String().Draw(t, "label")}},
		}
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		frame, err := Encode(&sent, body)
		if err != nil {
			t.Fatal(err)
		}
		r := bytes.NewReader(append(frame, frame...))
		for range 2 {
			got, gotBody, err := Decode(r)
			if err != nil || !reflect.DeepEqual(got, sent) || !bytes.Equal(gotBody, body) {
				t.Fatalf("got %+v, %q, %v", got, gotBody, err)
			}
		}
		if _, _, err := Decode(r); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	frame, _ := Encode(&Message{Op: OpList, Seq: 3}, []byte("body"))
	f.Add(frame)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= 4 && binary.BigEndian.Uint32(data) > 1<<20 {
			return // only costs memory
		}
		_, _, _ = Decode(bytes.NewReader(data))
	})
}

func TestErrorsKeepTheirClass(t *testing.T) {
	for _, class := range []error{
		errdefs.ErrNotFound, errdefs.ErrInvalidArgument, errdefs.ErrFailedPrecondition, errdefs.ErrUnavailable,
		errdefs.ErrNotImplemented, errdefs.ErrUnknown,
	} {
		if got := DecodeError(EncodeError(errors.Join(errors.New("words"), class))); !errors.Is(got, class) {
			t.Errorf("%v became %v", class, got)
		}
	}
	var start *StartError
	if got := DecodeError(EncodeError(&StartError{ID: "c", Message: "no such command"})); !errors.As(got, &start) ||
		*start != (StartError{"c", "no such command"}) || !errors.Is(got, errdefs.ErrFailedPrecondition) {
		t.Errorf("start error became %v", got)
	}
	if got := DecodeError(EncodeError(ErrEnding)); !errors.Is(got, ErrEnding) || !errors.Is(got, errdefs.ErrUnavailable) {
		t.Errorf("the end of a shard became %v", got)
	}
	if got := DecodeError(EncodeError(errdefs.ErrUnavailable)); errors.Is(got, ErrEnding) {
		t.Errorf("%v is taken for the end of a shard", got)
	}
	if DecodeError(EncodeError(nil)) != nil {
		t.Error("no error became one")
	}
}

// What goes over the wire stays as it is: a shard serves every daemon that comes after the one which has started it.
func TestFramesStayAsTheyAre(t *testing.T) {
	started := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for name, c := range map[string]struct {
		message Message
		body    string
		want    string
	}{
		"hello": {
			Message{Op: OpReply, Seq: 1, Hello: &Hello{Version: 1, PID: 7, Build: "v1", Capabilities: []string{CanExec, CanAttach}}}, "",
			"\x00\x00\x00\x66\x00\x00\x00\x62" + `{"op":"reply","seq":1,"hello":{"version":1,"pid":7,"build":"v1","capabilities":["exec","attach"]}}`,
		},
		"start": {
			Message{Op: OpStart, Seq: 2, Start: &Start{
				ID: "c", Spec: []byte("elsewhere"), Rootfs: []Mount{{Type: "bind", Source: "/a", Options: []string{"ro"}}}, Stdin: true, StdinOnce: true,
				LogPath: "/log", LogMaxSize: 3, LogMaxFiles: 4, MessagePath: "/message", Runtime: "/crun", RuntimeArgs: []string{"-x"},
				Labels: map[string]string{"a": "b"},
			}}, "spec",
			"\x00\x00\x01\x0c\x00\x00\x01\x04" + `{"op":"start","seq":2,"start":{"id":"c","rootfs":[{"type":"bind","source":"/a","options":["ro"]}],"stdin":true,"stdinOnce":true,"logPath":"/log","logMaxSize":3,"logMaxFiles":4,"messagePath":"/message","runtime":"/crun","runtimeArgs":["-x"],"labels":{"a":"b"}}}spec`,
		},
		"exit": {
			Message{Op: OpExit, Container: &Container{
				ID: "c", State: Exited, PID: 5, StartedAt: started, FinishedAt: started, LogPath: "/log", ExitCode: 137, Signal: 9,
				OOMKilled: true, StartError: "no", Message: "last words", LogError: "full",
			}}, "",
			"\x00\x00\x01\x13\x00\x00\x01\x0f" + `{"op":"exit","container":{"id":"c","state":"exited","pid":5,"startedAt":"2026-01-02T03:04:05.000000006Z","finishedAt":"2026-01-02T03:04:05.000000006Z","logPath":"/log","exitCode":137,"signal":9,"oomKilled":true,"startError":"no","message":"last words","logError":"full"}}`,
		},
		"exec": {Message{Op: OpExec, ID: "c", Exec: &Exec{Args: []string{"a"}, TTY: true, Stdin: true}}, "",
			"\x00\x00\x00\x48\x00\x00\x00\x44" + `{"op":"exec","id":"c","exec":{"args":["a"],"tty":true,"stdin":true}}`,
		},
		"attach": {
			Message{Op: OpReply, Attached: &Attached{Terminal: true, Stdin: true, Stdout: true, Stderr: true, StdinOnce: true}}, "",
			"\x00\x00\x00\x69\x00\x00\x00\x65" + `{"op":"reply","attached":{"terminal":true,"stdin":true,"stdout":true,"stderr":true,"stdinOnce":true}}`,
		},
		"an error": {Message{Op: OpReply, Seq: 3, Error: EncodeError(&StartError{ID: "c", Message: "no such command"})}, "",
			"\x00\x00\x00\x59\x00\x00\x00\x55" + `{"op":"reply","seq":3,"error":{"class":"start","message":"no such command","id":"c"}}`,
		},
		"signal": {Message{Op: OpSignal, ID: "c", Signal: 9, All: true}, "",
			"\x00\x00\x00\x32\x00\x00\x00\x2e" + `{"op":"signal","id":"c","signal":9,"all":true}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Encode(&c.message, []byte(c.body))
			if err != nil || string(got) != c.want {
				t.Errorf("%v\n%q", err, got)
			}
		})
	}
}
