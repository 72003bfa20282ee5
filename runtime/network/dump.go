package network

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpAttempts is how often a list is asked for that changes while the kernel gives it.
const dumpAttempts = 50

// dump lists what the kernel has, again when somebody else changed it meanwhile: another daemon's pods come and go.
func dump[T any](list func() ([]T, error)) (found []T, err error) {
	for range dumpAttempts {
		if found, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return found, err
}
