package runtime

import (
	"context"
	"io"
)

// Attacher connects to the first processes of running containers. Several may be attached to one.
type Attacher interface {
	// Attach copies what the process reads and writes from now on, until the process has ended and all of its output is
	// written, or until Stdin has ended, if that does not end the process's own. In that case, and when ctx ends, the
	// process goes on. Classes of errors: ErrNotFound for a container that does not run, ErrUnavailable for one to
	// which too many are attached or whose output was not taken for too long, ErrNotImplemented where this is not
	// possible.
	//
	// The writers are not used any more once Attach has returned; Stdin is read from until it ends.
	Attach(ctx context.Context, id string, a AttachRequest) error
}

// AttachRequest says what to connect. What is nil is not connected.
type AttachRequest struct {
	// Stdin is written to the process if it has a stdin, else dropped. One that fails instead of ending does not end
	// the process's.
	Stdin io.Reader
	// Stdout gets all output of a process that has a terminal.
	Stdout, Stderr io.Writer
	// Resize yields the sizes of the terminal as they change.
	Resize <-chan TerminalSize
	// Left is closed when the client is gone. From then on output is not copied any more, while Stdin still is, to its end.
	// It may be nil.
	Left <-chan struct{}
}
