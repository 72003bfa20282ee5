package runtime

import (
	"context"
	"io"
)

// Executor runs further processes in running containers, as their user and with their environment and limits.
type Executor interface {
	// Exec runs a process to its end and returns its exit code, 128+n when signal n ended it. When ctx ends first the process
	// is killed, unless the request has Left. Classes of errors:
	//
	//   - ErrNotFound: the container does not run;
	//   - ErrFailedPrecondition: the command cannot be started, or the container is frozen;
	//   - ErrNotImplemented: it is not possible here;
	//   - ErrResourceExhausted: too many processes run already whose callers have left, or may leave;
	//   - ErrAborted: the process goes on, since its caller has left.
	//
	// The writers are not used any more once Exec has returned; Stdin is read from until it ends.
	Exec(ctx context.Context, id string, e ExecRequest) (exitCode int, err error)
}

// ExecRequest is a process to be run in a container.
type ExecRequest struct {
	Args []string
	// Own runs jobd-shim with Args, which the container's image need not have: see archive.Inside. The container's OCI
	// runtime has to be crun or runc; with others, and if an older version of jobd has started the container, this is
	// ErrNotImplemented.
	Own bool
	// TTY runs it on a terminal: then all its output comes by Stdout.
	TTY bool
	// Stdin is what it reads; nil for nothing. Output without a writer is dropped.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize yields the sizes of the terminal as they change. It may be nil.
	Resize <-chan TerminalSize
	// Left is closed when the client is gone. With a Left the process survives that, and the end of ctx, as in a cluster:
	// it gets what Stdin still holds and then the end of its input, or, with a terminal, a hangup. What it writes from then
	// on is dropped. It ends with its container at the latest.
	Left <-chan struct{}
}

// TerminalSize is in characters.
type TerminalSize struct{ Width, Height uint16 }
