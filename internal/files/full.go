//go:build unix

package files

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Full reports whether an error says that a disk has no space or no inodes left, or that a quota of it is used up.
func Full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
