package network

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpAttempts bounds how often a list that changes meanwhile is read.
const dumpAttempts = 50

// dump reads a list of the kernel, and reads it again if it changed meanwhile: another daemon's pods come and go.
func dump[T any](list func() ([]T, error)) (found []T, err error) {
	for range dumpAttempts {
		if found, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return found, err
}
