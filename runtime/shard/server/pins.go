package server

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// openPins opens pinned namespaces. The calling thread is in the mount namespace that has the pins afterwards.
func openPins(p *protocol.Pins) (namespaces []*os.File, err error) {
	if p == nil {
		return nil, nil
	}
	in, err := os.Open(p.In)
	if err != nil {
		return nil, fmt.Errorf("mount namespace of pins: %w", err)
	}
	defer in.Close()
	if err := unix.Setns(int(in.Fd()), unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("mount namespace of pins: %w", err)
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

// mountPins mounts namespaces where the OCI runtime looks for them, in the calling thread's mount namespace.
func mountPins(p *protocol.Pins, namespaces []*os.File) error {
	for i, namespace := range namespaces {
		if err := unix.Mount("/proc/self/fd/"+strconv.Itoa(int(namespace.Fd())), p.Paths[i], "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount namespace %s: %w", p.Paths[i], err)
		}
	}
	return nil
}
