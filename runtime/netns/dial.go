// Package netns reaches into the network namespaces of processes. It enters them on threads of their own and leaves
// nothing behind.
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

// Dial dials an address, which must not be a name, from the network namespace of a container's process. It fails with
// ErrNotFound when the process of that number is not one of the container: it may have ended, and the number gone to
// another.
func Dial(ctx context.Context, container string, pid int, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		// A socket belongs to the namespace of the thread that makes it. The thread is never unlocked, so that it ends
		// with the goroutine.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread stands for the process and never ends. While it is locked, the call below gets another
			// one.
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
	// Its cgroup has the container's name.
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return err
	}
	if !bytes.Contains(cgroups, []byte(container)) {
		return fmt.Errorf("it is not of container %s: %w", container, errdefs.ErrNotFound)
	}
	// This succeeds only if the process is still there, so that what was read was about it. Entering its namespaces by
	// the handle itself takes Linux 5.8.
	if err := unix.PidfdSendSignal(process, 0, nil, 0); err != nil {
		return err
	}
	return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
}
