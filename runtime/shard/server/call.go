package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// killTime is how long a process that was killed may take to end. One that takes longer hangs in the kernel, and is
// given up on.
const killTime = 10 * time.Second

// errCalledOff is why the OCI runtime is killed while it starts a container that nobody wants any more.
var errCalledOff = fmt.Errorf("the start was called off: %w", errdefs.ErrAborted)

// timeoutError is why the OCI runtime is killed when it takes too long.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string {
	return fmt.Sprintf("the OCI runtime has not come to an end within %v, and was killed", e.after)
}

// call runs the OCI runtime to its end. When ctx ends first, or the container's time limit for a call has passed since
// the call's turn came, the runtime and every process below it are killed, and the error is the cause. The overlay,
// which may be nil whatever the error, has to be given back.
func (c *container) call(ctx context.Context, expected expectation, l launch) (unix.WaitStatus, *overlay, error) {
	limit := c.record.RuntimeTimeout
	if limit <= 0 {
		limit = protocol.DefaultRuntimeTimeout
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.login = c.record.Login
	l.begun = func() {
		late := time.AfterFunc(limit, func() { cancel(timeoutError{limit}) })
		context.AfterFunc(ctx, func() { late.Stop() })
	}
	return c.host.call(ctx, expected, l)
}

func (h *host) call(ctx context.Context, expected expectation, l launch) (unix.WaitStatus, *overlay, error) {
	over := make(chan struct{})
	defer close(over)
	l.over = over
	pid, root, err := h.launcher.launch(ctx, l)
	if err != nil {
		return 0, root, err
	}
	ended := make(chan unix.WaitStatus, 1)
	expected.claim(pid, func(status unix.WaitStatus) { ended <- status })
	select {
	case status := <-ended:
		return status, root, nil
	case <-ctx.Done():
	}
	h.reaper.killTree(pid)
	select {
	case status := <-ended:
		if !status.Signaled() {
			return status, root, nil // it was just about to end
		}
	case <-time.After(killTime):
		h.logger.Error("an OCI runtime that was killed does not end", "pid", pid, "command", strings.Join(l.argv, " "))
	}
	return 0, root, context.Cause(ctx)
}

// killTree kills a claimed child of this process and every process below it, and waits for the end of those below it, for
// killTime at most. Each is stopped before anything is killed, so that none can escape by forking, or by losing its parent.
// It does nothing when the child has ended.
func (r *reaper) killTree(root int) {
	if r.signal(root, unix.SIGSTOP) != nil {
		return
	}
	below := map[int]int{} // handles by process
	defer func() {
		for _, fd := range below {
			unix.Close(fd)
		}
	}()
	inTree := func(p procStat) bool {
		_, ok := below[p.parent]
		return ok || p.parent == root || p.group == root
	}
	for grown := true; grown; {
		grown = false
		for _, p := range processes() {
			if _, known := below[p.pid]; known || p.pid == root || p.pid == os.Getpid() || !inTree(p) {
				continue
			}
			fd, err := unix.PidfdOpen(p.pid, 0)
			if err != nil {
				continue // it has ended
			}
			// It may be another one of the same number by now; what the handle holds is not.
			if now, err := readProcStat(p.pid); err != nil || !inTree(now) {
				unix.Close(fd)
				continue
			}
			_ = unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0)
			below[p.pid], grown = fd, true
		}
	}
	_ = r.signal(root, unix.SIGKILL)
	for _, fd := range below {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	late := time.Now().Add(killTime)
	for _, fd := range below {
		awaitEnd(fd, late)
	}
}

// awaitEnd waits until a process that was killed has ended, by a handle of it, or until it is late.
func awaitEnd(pidfd int, late time.Time) {
	for left := time.Until(late); left > 0; left = time.Until(late) {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != unix.EINTR {
			return
		}
	}
}

// killChild kills a child of this process that nobody has claimed, unless it has been reaped already.
func killChild(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if is, err := readProcStat(pid); err == nil && is.parent == os.Getpid() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// procStat is what the tree of processes is made of.
type procStat struct{ pid, parent, group int }

// processes returns all processes of this PID namespace.
func processes() []procStat {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	var all []procStat
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if p, err := readProcStat(pid); err == nil {
			all = append(all, p)
		}
	}
	return all
}

func readProcStat(pid int) (procStat, error) {
	fields, err := statFields(pid, 3)
	if err != nil {
		return procStat{}, err
	}
	parent, err := strconv.Atoi(fields[1])
	group, groupErr := strconv.Atoi(fields[2])
	return procStat{pid, parent, group}, errors.Join(err, groupErr)
}

// statFields returns what the kernel says of a process, in proc(5)'s order from the state on, which is its third field. It has to say so
// much.
func statFields(pid, least int) ([]string, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The name is in parentheses, and may hold some itself: "12 (a) b) S 1 12 ...".
	fields := strings.Fields(string(content)[strings.LastIndexByte(string(content), ')')+1:])
	if len(fields) < least {
		return nil, fmt.Errorf("/proc/%d/stat: %w", pid, errdefs.ErrUnknown)
	}
	return fields, nil
}
