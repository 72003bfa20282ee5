package protocol

import (
	"errors"
	"path/filepath"
)

// SocketPath returns where the shard of a directory listens.
func SocketPath(dir string) string { return filepath.Join(dir, "shard.sock") }

// LogPath returns where a shard has its own log, which is not that of a container.
func LogPath(dir string) string { return filepath.Join(dir, "shard.log") }

// LockPath returns the lock that a shard holds for as long as it lives.
func LockPath(dir string) string { return filepath.Join(dir, "lock") }

// ContainersDir returns what has a directory for each container that a shard holds, and for nothing else.
func ContainersDir(dir string) string { return filepath.Join(dir, "containers") }

// ConsolePrefix begins the names of sockets, in the directory of a shard, by which an OCI runtime hands over a
// terminal.
const ConsolePrefix = "tty-"

// RuntimeDir is the name of what belongs to the OCI runtime in the directory of a shard: what it has to know of each
// container that runs.
const RuntimeDir = "runtime"

// ReadyWord is what a new shard writes to whoever has started it when its socket is open. Anything else is why it will
// not be, with HeldWord before it when the reason is ErrHeld.
const (
	ReadyWord = "ready\n"
	HeldWord  = "held: "
)

// ErrHeld says that another shard has a directory.
var ErrHeld = errors.New("another one has its directory")
