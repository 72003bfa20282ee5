package server

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// openPins opens pinned namespaces. The calling thread may be in the mount namespace that has the pins afterwards.
func openPins(p *protocol.Pins) (namespaces []*os.File, err error) {
	in, err := os.Open(p.In)
	if err != nil {
		return nil, fmt.Errorf("mount namespace of pins: %w", err)
	}
	defer in.Close()
	if err := unix.Setns(int(in.Fd()), unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("enter the mount namespace of pins: %w", err)
	}
	for _, path := range p.Paths {
		namespace, err := os.Open(path)
		if err != nil {
			return namespaces, fmt.Errorf("pinned namespace: %w", err)
		}
		namespaces = append(namespaces, namespace)
	}
	return namespaces, nil
}

// mountPin mounts a namespace where the OCI runtime looks for it, in the calling thread's mount namespace.
func mountPin(namespace *os.File, path string) error {
	if err := unix.Mount("/proc/self/fd/"+strconv.Itoa(int(namespace.Fd())), path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount namespace at %s: %w", path, err)
	}
	return nil
}
