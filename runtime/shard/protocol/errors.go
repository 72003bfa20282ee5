package protocol

import (
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
)

// StartError says that the OCI runtime could not start the container's process: no such command, a bad mount, ... The
// container is kept as Exited with the same message until Delete. Its class is errdefs.ErrFailedPrecondition.
type StartError struct {
	ID      string
	Message string // the OCI runtime's own error message
}

func (e *StartError) Error() string { return fmt.Sprintf("start container %s: %s", e.ID, e.Message) }

func (e *StartError) Unwrap() error { return errdefs.ErrFailedPrecondition }

// ErrEnding says that a shard takes no more containers, since it is about to end. Its class is errdefs.ErrUnavailable.
// What is refused with it can be asked of the shard that is started next. Shards from before this error was introduced
// return its class alone.
var ErrEnding = fmt.Errorf("shard is ending: %w", errdefs.ErrUnavailable)

// Error carries an error with its class, one of those of errdefs.
type Error struct {
	Class   string `json:"class"`
	Message string `json:"message"`
	ID      string `json:"id,omitempty"`
	Ending  bool   `json:"ending,omitempty"`
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return class(e.Class) }

// Is reports whether it is an ErrEnding.
func (e *Error) Is(target error) bool { return e.Ending && target == ErrEnding }

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
	case "exhausted":
		return errdefs.ErrResourceExhausted
	case "aborted":
		return errdefs.ErrAborted
	}
	return errdefs.ErrUnknown
}

// EncodeError returns an error as a reply carries it, nil for nil.
func EncodeError(err error) *Error {
	var start *StartError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &start):
		return &Error{Class: startErrorClass, Message: start.Message, ID: start.ID}
	}
	for _, name := range []string{"not-found", "invalid", "precondition", "unavailable", "not-implemented", "exhausted", "aborted"} {
		if errors.Is(err, class(name)) {
			return &Error{Class: name, Message: err.Error(), Ending: errors.Is(err, ErrEnding)}
		}
	}
	return &Error{Class: "unknown", Message: err.Error()}
}

// DecodeError is the reverse of EncodeError: the error has its class again, and a *StartError becomes one again.
func DecodeError(e *Error) error {
	switch {
	case e == nil:
		return nil
	case e.Class == startErrorClass:
		return &StartError{ID: e.ID, Message: e.Message}
	}
	return e
}
