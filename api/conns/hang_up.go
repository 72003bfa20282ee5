package conns

import (
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hangUpPeriod is how often to check whether a client is still there while nothing can be read from it.
const hangUpPeriod = 3 * time.Second

// WatchHangUp notices that the client is gone even while its input waits for a process that does not read. Over TCP it
// notices only once all input has arrived, or once the client's kernel has given up.
func WatchHangUp(ctx context.Context, gone func()) {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	socket, ok := innermost(c).(syscall.Conn)
	if !ok {
		return
	}
	ticker := time.NewTicker(hangUpPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if hungUp(socket) {
				gone()
				return
			}
		}
	}
}

// hungUp reports whether the other side will send nothing more.
func hungUp(socket syscall.Conn) bool {
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	var polled []unix.PollFd
	if err := raw.Control(func(fd uintptr) {
		polled = []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		_, err = unix.Poll(polled, 0)
	}); err != nil {
		return true // it is closed
	}
	return err == nil && polled[0].Revents != 0
}
