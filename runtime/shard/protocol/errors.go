package protocol

import (
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
)

// StartError says that the OCI runtime could not start the container's process: no such command, a bad mount, ...
// The container is kept as Exited with the same words until Delete. Its class is errdefs.ErrFailedPrecondition.
type StartError struct {
	ID      string
	Message string // the OCI runtime's own words
}

func (e *StartError) Error() string { return fmt.Sprintf("start container %s: %s", e.ID, e.Message) }

func (e *StartError) Unwrap() error { return errdefs.ErrFailedPrecondition }

// Error carries an error with its class, one of those of errdefs.
type Error struct {
	Class   string `json:"class"`
	Message string `json:"message"`
	ID      string `json:"id,omitempty"`
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return class(e.Class) }

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

// EncodeError makes of an error what a reply carries: nil of nil.
func EncodeError(err error) *Error {
	var start *StartError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &start):
		return &Error{Class: startErrorClass, Message: start.Message, ID: start.ID}
	}
	for _, name := range []string{"not-found", "invalid", "precondition", "unavailable", "not-implemented", "aborted"} {
		if errors.Is(err, class(name)) {
			return &Error{Class: name, Message: err.Error()}
		}
	}
	return &Error{Class: "unknown", Message: err.Error()}
}

// DecodeError is the reverse: the error has the class that it had, and a *StartError is one again.
func DecodeError(e *Error) error {
	switch {
	case e == nil:
		return nil
	case e.Class == startErrorClass:
		return &StartError{ID: e.ID, Message: e.Message}
	}
	return e
}
