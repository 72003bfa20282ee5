package pod

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

// DialInside dials from the network namespace of a container's process, to an address that is no name: a socket belongs to
// the one that its thread was in. Another process that has got the same number meanwhile is not taken for it.
func DialInside(ctx context.Context, container string, pid int, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The first thread stands for the process and never ends. While it is held here, another one is found.
			conn, err := DialInside(ctx, container, pid, network, address)
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
	// This fails if the process has ended, and so what was read was of it. To enter its namespaces by the handle itself
	// takes Linux 5.8.
	if err := unix.PidfdSendSignal(process, 0, nil, 0); err != nil {
		return err
	}
	return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
}
