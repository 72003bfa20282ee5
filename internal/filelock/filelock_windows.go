package filelock

import (
	"errors"
	"fmt"
)

// HeldError says that another process holds the lock.
type HeldError struct {
	Path string
	PID  int
}

func (e *HeldError) Error() string { return fmt.Sprintf("%s is held by process %d", e.Path, e.PID) }

// Lock is never held: no daemon runs here.
type Lock struct{}

// Take fails.
func Take(path string) (*Lock, error) {
	return nil, fmt.Errorf("lock %s: %w", path, errors.ErrUnsupported)
}

// Close does nothing.
func (*Lock) Close() error { return nil }
