package server

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// process is the first process of a container.
type process interface {
	// signal returns errdefs.ErrNotFound when the process has ended.
	signal(unix.Signal) error
	// killed says that the process was killed, if not by that.
	killed()
}

// child is a process whose parent is this shard.
type child struct {
	reaper *reaper
	pid    int
}

func (c child) signal(sig unix.Signal) error {
	if sig == unix.SIGKILL {
		c.killed()
	}
	return c.reaper.signal(c.pid, sig)
}

func (c child) killed() { c.reaper.killed(c.pid) }

// orphan is a process whose parent was a shard that has died.
type orphan struct{ handle *os.File }

// adopt returns a handle of a process that was in a control group. The error is errdefs.ErrNotFound when it is no
// longer there, even if another process has its number now.
func adopt(pid int, h cgroup.Hierarchies, group string) (*orphan, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w: %w", pid, errdefs.ErrNotFound, err)
	}
	o := &orphan{handle: os.NewFile(uintptr(fd), "pidfd")}
	if !slices.Contains(h.Processes(group), pid) {
		o.handle.Close()
		return nil, fmt.Errorf("process %d is not in %s: %w", pid, group, errdefs.ErrNotFound)
	}
	return o, nil
}

// killed does nothing: the end of such a process is told whoever traces it.
func (o *orphan) killed() {}

func (o *orphan) signal(sig unix.Signal) error {
	conn, err := o.handle.SyscallConn()
	if err != nil {
		return errdefs.ErrNotFound
	}
	var sent error
	err = conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	if err != nil || sent == unix.ESRCH {
		return errdefs.ErrNotFound
	}
	return sent
}

// wait waits for the end of a process that is somebody else's child. It returns false when the kernel did not say how
// it ended.
func (o *orphan) wait() (unix.WaitStatus, bool) {
	defer o.handle.Close()
	conn, err := o.handle.SyscallConn()
	if err != nil {
		return 0, false
	}
	info := unix.PidfdInfo{}
	told := func(fd uintptr) bool {
		info = unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
		err := unix.IoctlPidfdInfo(int(fd), &info)
		return err == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0
	}
	// The handle is readable once the process has ended, and says how once its parent has reaped it.
	err = conn.Read(func(fd uintptr) bool {
		if told(fd) {
			return true
		}
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(polled, 0)
		if err == nil && n > 0 && polled[0].Revents&unix.POLLIN != 0 {
			o.handle.SetReadDeadline(time.Now().Add(5 * time.Second))
		}
		return false
	})
	return unix.WaitStatus(info.Exit_code), err == nil
}

// tellsExits reports whether this kernel keeps the exit code of a process for the holders of its pidfd: Linux 6.15 and
// later.
func tellsExits() bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false
	}
	return releaseAtLeast(unix.ByteSliceToString(name.Release[:]), 6, 15)
}

func releaseAtLeast(release string, major, minor int) bool {
	first, rest, _ := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(rest[:end])
	return err1 == nil && err2 == nil && (a > major || a == major && b >= minor)
}

// fold adds how a process ended to what is known about its container.
func fold(c *protocol.Container, status unix.WaitStatus) {
	c.State = protocol.Exited
	c.ExitCode = status.ExitStatus()
	if status.Signaled() {
		c.Signal = int(status.Signal())
		c.ExitCode = 128 + c.Signal
	}
}
