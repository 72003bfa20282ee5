package shard

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// watch returns a handle of a process that is about to end: after that another process may have its number.
func watch(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	// So that Go waits for it. The flag of pidfd_open takes Linux 5.10.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// waitForEnd returns when a process has ended, whether or not its parent has reaped it.
func waitForEnd(ctx context.Context, process *os.File) error {
	conn, err := process.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { process.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	return conn.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// removeLeft removes what a shard that held nothing has left behind when it ended. It removes only what is known to
// belong to a shard, and nothing below the directory of a container, in which something may be mounted.
func (o *Options) removeLeft() error {
	var errs []error
	consoles, err := filepath.Glob(filepath.Join(o.Dir, protocol.ConsolePrefix+"*"))
	errs = append(errs, err, os.RemoveAll(filepath.Join(o.Dir, protocol.RuntimeDir)))
	own := append(consoles, protocol.ContainersDir(o.Dir), protocol.SocketPath(o.Dir), protocol.LockPath(o.Dir))
	if info, err := os.Stat(protocol.LogPath(o.Dir)); err == nil && info.Size() == 0 {
		own = append(own, protocol.LogPath(o.Dir))
	}
	for _, path := range own {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := unix.Rmdir(o.Dir); err != nil && err != unix.ENOENT && err != unix.ENOTEMPTY {
		errs = append(errs, &fs.PathError{Op: "rmdir", Path: o.Dir, Err: err})
	}
	if o.Cgroup != "" {
		groups, err := cgroup.Find()
		if err == nil {
			err = groups.Prune(o.Cgroup)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
