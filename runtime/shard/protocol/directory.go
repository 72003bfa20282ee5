package protocol

import (
	"errors"
	"path/filepath"
)

// SocketPath returns where the shard of a directory listens.
func SocketPath(dir string) string { return filepath.Join(dir, "shard.sock") }

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
