package protocol

import (
	"errors"
	"path/filepath"
)

// SocketPath returns where the shard of a directory listens.
func SocketPath(dir string) string { return filepath.Join(dir, "shard.sock") }

// LogPath returns the path of a shard's own log, which is not that of a container.
func LogPath(dir string) string { return filepath.Join(dir, "shard.log") }

// LockPath returns the lock that a shard holds for as long as it lives.
func LockPath(dir string) string { return filepath.Join(dir, "lock") }

// ContainersDir returns the directory that has a subdirectory for each container that a shard holds, and nothing else.
func ContainersDir(dir string) string { return filepath.Join(dir, "containers") }

// ConsolePrefix begins the names of sockets, in the directory of a shard, by which an OCI runtime hands over a
// terminal.
const ConsolePrefix = "tty-"

// RuntimeDir is the name of the OCI runtime's own directory in that of a shard, which holds the state of each running
// container.
const RuntimeDir = "runtime"

// ReadyWord is what a new shard writes to whoever has started it when its socket is open. Anything else is the reason
// why it will not open, with HeldWord before it when that is ErrHeld.
const (
	ReadyWord = "ready\n"
	HeldWord  = "held: "
)

// ErrHeld says that another shard has a directory.
var ErrHeld = errors.New("another one has its directory")
