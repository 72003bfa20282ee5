// Package protocol is what a daemon and its shards say to each other: frames, requests, replies, and what both sides
// know of the directory of a shard. It reads and writes a connection that somebody else has opened, and touches nothing
// else on the host.
//
// The frames go over a unix stream socket: requests from the daemon, replies and exits from the shard.
//
//	uint32 length of all that follows | uint32 length of header | header, JSON | body, opaque bytes
//
// A request carries a number that its reply repeats; replies come in any order. An exit is pushed without being asked
// for. Old shards serve newer daemons and the reverse, so the protocol changes by additions only: unknown fields of a
// header are ignored, an unknown operation is answered with errdefs.ErrNotImplemented, and what a shard can do is in
// its hello.
package protocol

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
)

const (
	// Version is raised only when shards and daemons of different versions could not work together otherwise.
	Version  = 1
	maxFrame = 64 << 20
)

// Op is an operation: what a frame asks for or reports.
type Op string

const (
	OpHello    Op = "hello"
	OpStart    Op = "start" // the body is the OCI spec
	OpCallOff  Op = "call-off"
	OpSignal   Op = "signal"
	OpDelete   Op = "delete"
	OpList     Op = "list"
	OpShutdown Op = "shutdown"
	OpExec     Op = "exec" // on a connection of its own; the reply carries open files
	OpExecExit Op = "exec-exit"
	// The same for the streams of the container's first process. Its end is reported like that of an exec.
	OpAttach     Op = "attach"
	OpCloseStdin Op = "close-stdin"
	OpReply      Op = "reply"
	OpExit       Op = "exit"
)

// Message is a frame's header. Which fields are set depends on the operation.
type Message struct {
	Op  Op     `json:"op"`
	Seq uint64 `json:"seq,omitempty"`

	Hello      *Hello      `json:"hello,omitempty"`
	Start      *Start      `json:"start,omitempty"`
	ID         string      `json:"id,omitempty"`
	Signal     int         `json:"signal,omitempty"`
	All        bool        `json:"all,omitempty"`
	Once       bool        `json:"once,omitempty"`
	Container  *Container  `json:"container,omitempty"`
	Containers []Container `json:"containers,omitempty"`
	Exec       *Exec       `json:"exec,omitempty"`
	Attach     *Attach     `json:"attach,omitempty"`
	Attached   *Attached   `json:"attached,omitempty"`
	ExitCode   int         `json:"exitCode,omitempty"`
	Error      *Error      `json:"error,omitempty"`
}

// Hello is what the two sides tell each other first.
type Hello struct {
	Version int `json:"version"`
	PID     int `json:"pid"`
	// Build is the version of the binary, for people.
	Build        string   `json:"build,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
}

// What a shard says in its hello that it can do, beyond what the first ones could.
const (
	CanExec   = "exec"
	CanAttach = "attach" // and starts containers with a terminal or stdin
	// CanCallOff: it ends starts that are under way, and each call of an OCI runtime that takes too long.
	CanCallOff = "call-off"
	// CanMapUsers: it starts containers in user namespaces, with the mounts that go with them.
	CanMapUsers = "map-users"
	// CanRunForeign: it runs OCI runtimes that are neither crun nor runc.
	CanRunForeign = "foreign-runtimes"
	// CanExecOwn: it runs its own program in containers.
	CanExecOwn = "exec-own"
	// CanOutlive: it leaves processes alone whose daemon hangs up, if the daemon wants that.
	CanOutlive = "exec-outlives"
	// CanFindPins: it starts containers in namespaces that are pinned elsewhere than in the host's mounts.
	CanFindPins = "find-pins"
	// CanShowHost: it starts containers that run commands of the host.
	CanShowHost = "show-host"
)

// Capabilities returns all that a shard of this version can do.
func Capabilities() []string {
	return []string{CanExec, CanAttach, CanCallOff, CanMapUsers, CanRunForeign, CanExecOwn, CanFindPins, CanOutlive, CanShowHost}
}

// Encode makes a frame of a header and a body, for one write.
func Encode(m *Message, body []byte) ([]byte, error) {
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

// Decode reads one frame. The error is io.EOF when the other side has hung up between two frames.
func Decode(r io.Reader) (Message, []byte, error) {
	var m Message
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
