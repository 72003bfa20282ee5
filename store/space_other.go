//go:build !linux

package store

import (
	"errors"
	"os"
)

// The daemon needs Linux. Elsewhere the store is only part of what jobctl plays Jobs with.

func openInPlace(name string, flag int, mode os.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, mode)
}

func copiesOnWrite(string) bool { return false }

func allocate(string, int64) error { return errors.ErrUnsupported }
