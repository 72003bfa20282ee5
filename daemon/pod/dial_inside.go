package pod

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// DialInside dials from the network namespace of a process, to an address that is no name: a socket belongs to the one that
// its thread was in.
func DialInside(ctx context.Context, pid int, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The first thread stands for the process and never ends. While it is held here, another one is found.
			conn, err := DialInside(ctx, pid, network, address)
			done <- result{conn, err}
			runtime.UnlockOSThread()
			return
		}
		if err := enterNetwork(pid); err != nil {
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

func enterNetwork(pid int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}
