// Package netns dials from the network namespaces of containers' processes, so that probes and port-forward reach what
// listens on localhost there.
//
// A container's ID and the PID of one of its processes come in, a connection goes out. It enters a namespace only on a
// thread that it ends afterwards, and changes nothing on the host.
package netns

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/thread"
)

// Dial dials an address, which must not be a name, from the network namespace of a container's process. It returns
// ErrNotFound if the process with that PID does not belong to the container: it may have ended, and another process may
// have got its PID.
func Dial(ctx context.Context, container string, pid int, network, address string) (conn net.Conn, err error) {
	// A socket belongs to the namespace of the thread that creates it.
	err = thread.Run(func() error {
		if err := enterNetwork(container, pid); err != nil {
			return fmt.Errorf("network of process %d: %w", pid, err)
		}
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

func enterNetwork(container string, pid int) error {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(process)
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer namespace.Close()
	// The path of its cgroup contains the container's ID.
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return err
	}
	if !bytes.Contains(cgroups, []byte(container)) {
		return fmt.Errorf("it is not of container %s: %w", container, errdefs.ErrNotFound)
	}
	// This succeeds only if the process still exists, so that what was read is about this process. Entering its
	// namespaces through the pidfd itself needs Linux 5.8.
	if err := unix.PidfdSendSignal(process, 0, nil, 0); err != nil {
		return err
	}
	return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
}
