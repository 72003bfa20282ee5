package shard

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
)

// The protocol: frames over a unix stream socket, requests from the daemon, replies and exits from the shard.
//
//	uint32 length of all that follows | uint32 length of header | header, JSON | body, opaque bytes
//
// A request carries a number that its reply repeats; replies come in any order. An exit is pushed without being asked
// for. Old shards serve newer daemons and the reverse: what a header holds beyond what is known is ignored, an operation
// that is not known is answered with errdefs.ErrNotImplemented, and what a shard can do stands in its hello.
const (
	// ProtocolVersion is counted up when a shard and a daemon of different versions could not work together otherwise.
	ProtocolVersion = 1
	maxFrame        = 64 << 20
)

type op string

const (
	opHello    op = "hello"
	opStart    op = "start" // the body is the OCI spec
	opSignal   op = "signal"
	opDelete   op = "delete"
	opList     op = "list"
	opShutdown op = "shutdown"
	opExec     op = "exec" // on a connection of its own; the reply carries open files
	opExecExit op = "exec-exit"
	// The same of what the container itself reads and writes. Its end is told of like that of an exec.
	opAttach     op = "attach"
	opCloseStdin op = "close-stdin"
	opReply      op = "reply"
	opExit       op = "exit"
)

// message is a frame's header. Which fields are set depends on the operation.
type message struct {
	Op  op     `json:"op"`
	Seq uint64 `json:"seq,omitempty"`

	Hello      *Hello      `json:"hello,omitempty"`
	Start      *Start      `json:"start,omitempty"`
	ID         string      `json:"id,omitempty"`
	Signal     int         `json:"signal,omitempty"`
	All        bool        `json:"all,omitempty"`
	Container  *Container  `json:"container,omitempty"`
	Containers []Container `json:"containers,omitempty"`
	Exec       *Exec       `json:"exec,omitempty"`
	Attach     *Attach     `json:"attach,omitempty"`
	Attached   *Attached   `json:"attached,omitempty"`
	ExitCode   int         `json:"exitCode,omitempty"`
	Error      *wireError  `json:"error,omitempty"`
}

// Hello is what the two sides tell each other first.
type Hello struct {
	Version int `json:"version"`
	PID     int `json:"pid"`
	// Build is the version of the binary, for people.
	Build        string   `json:"build,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
}

// wireError carries an error with its class.
type wireError struct {
	Class   string `json:"class"`
	Message string `json:"message"`
	ID      string `json:"id,omitempty"`
}

func (e *wireError) Error() string { return e.Message }

func (e *wireError) Unwrap() error { return class(e.Class) }

// Capabilities.
const (
	canExec   = "exec"
	canAttach = "attach" // and starts containers with a terminal or stdin
)

const startErrorClass = "start"

func class(name string) error {
	switch name {
	case "not-found":
		return errdefs.ErrNotFound
	case "invalid":
		return errdefs.ErrInvalidArgument
	case "precondition", startErrorClass:
		return errdefs.ErrFailedPrecondition
	case "unavailable":
		return errdefs.ErrUnavailable
	case "not-implemented":
		return errdefs.ErrNotImplemented
	case "aborted":
		return errdefs.ErrAborted
	}
	return errdefs.ErrUnknown
}

func toWire(err error) *wireError {
	var start *StartError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &start):
		return &wireError{Class: startErrorClass, Message: start.Message, ID: start.ID}
	}
	for _, name := range []string{"not-found", "invalid", "precondition", "unavailable", "not-implemented", "aborted"} {
		if errors.Is(err, class(name)) {
			return &wireError{Class: name, Message: err.Error()}
		}
	}
	return &wireError{Class: "unknown", Message: err.Error()}
}

func fromWire(e *wireError) error {
	switch {
	case e == nil:
		return nil
	case e.Class == startErrorClass:
		return &StartError{ID: e.ID, Message: e.Message}
	}
	return e
}

// encode makes a frame of a header and a body, for one write.
func encode(m *message, body []byte) ([]byte, error) {
	header, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Op, err)
	}
	n := 4 + len(header) + len(body)
	if n > maxFrame {
		return nil, fmt.Errorf("encode %s: %d bytes are too many: %w", m.Op, n, errdefs.ErrInvalidArgument)
	}
	frame := make([]byte, 0, 4+n)
	frame = binary.BigEndian.AppendUint32(frame, uint32(n))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))
	frame = append(frame, header...)
	return append(frame, body...), nil
}

// decode reads one frame. The error is io.EOF when the other side has hung up between two frames.
func decode(r io.Reader) (message, []byte, error) {
	var m message
	var lengths [8]byte
	if _, err := io.ReadFull(r, lengths[:]); err != nil {
		return m, nil, err
	}
	total, header := binary.BigEndian.Uint32(lengths[:4]), binary.BigEndian.Uint32(lengths[4:])
	if total > maxFrame || total < 4 || header > total-4 {
		return m, nil, fmt.Errorf("frame of %d bytes with a header of %d: %w", total, header, errdefs.ErrInvalidArgument)
	}
	frame := make([]byte, total-4)
	if _, err := io.ReadFull(r, frame); err != nil {
		return m, nil, err
	}
	if err := json.Unmarshal(frame[:header], &m); err != nil {
		return m, nil, fmt.Errorf("frame header: %w: %w", errdefs.ErrInvalidArgument, err)
	}
	return m, frame[header:], nil
}
