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
	"runtime"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Dial dials an address, which must not be a name, from the network namespace of a container's process. It returns
// ErrNotFound if the process with that PID does not belong to the container: it may have ended, and another process may
// have got its PID.
func Dial(ctx context.Context, container string, pid int, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		// A socket belongs to the namespace of the thread that creates it. The thread is never unlocked, so that it
		// ends with the goroutine.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread represents the process and never ends. While it is locked, the call below runs on
			// another one.
			conn, err := Dial(ctx, container, pid, network, address)
			done <- result{conn, err}
			runtime.UnlockOSThread()
			return
		}
		if err := enterNetwork(container, pid); err != nil {
			done <- result{nil, fmt.Errorf("network of process %d: %w", pid, err)}
			return
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
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
