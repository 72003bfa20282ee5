package store

import (
	"errors"
	"fmt"
	"syscall"

	berrors "go.etcd.io/bbolt/errors"

	"github.com/jobd/jobd/internal/files"
)

var (
	// ErrClosed is returned by every call on a store that was closed.
	ErrClosed = errors.New("store is closed")
	// ErrCompacted says that the changes asked for have been cut from the history.
	ErrCompacted = errors.New("history has been cut")
	// ErrFuture says that a version was asked for that does not exist yet.
	ErrFuture = errors.New("version does not exist yet")
	// ErrFull says that a commit found no space on the disk. Nothing was written; the store goes on, and writes succeed
	// again once there is space.
	ErrFull = errors.New("no space left for the database")
	// ErrCorrupt says that the file does not hold what was written to it.
	ErrCorrupt = errors.New("database is corrupt")
	// ErrInvalid says that a transaction put an object whose key or owners cannot be stored.
	ErrInvalid = errors.New("invalid object")
)

// LockedError says that another process has the database open.
type LockedError struct {
	Path string
	PID  int // 0 when it could not be found out
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is in use by another process", e.Path)
	}
	return fmt.Sprintf("%s is in use by process %d", e.Path, e.PID)
}

// FormatError says that the database was written by a newer jobd.
type FormatError struct {
	Found, Supported uint64
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("database has format %d, this jobd knows up to %d", e.Found, e.Supported)
}

// classify adds the class that callers test for to an error of bolt or the kernel.
func classify(err error) error {
	switch {
	case files.Full(err), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum),
		errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case errors.Is(err, berrors.ErrDatabaseNotOpen):
		return ErrClosed
	}
	return err
}

// corruption is the value that a read panics with when it finds what cannot be, and becomes the transaction's error:
// reads themselves return no errors since on a sound file they cannot fail.
type corruption struct{ err error }

func corrupt(format string, args ...any) {
	panic(corruption{fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))})
}

func recoverCorruption(err *error) {
	switch r := recover().(type) {
	case nil:
	case corruption:
		*err = r.err
	default:
		panic(r)
	}
}
