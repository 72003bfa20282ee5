package server

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

const (
	// A source that has more this soon after the last read is left to gather it: being woken for each small piece costs
	// more than copying it.
	soon = time.Millisecond
	// leastGathering and mostGathering bound for how long: until the pipe is about half full.
	leastGathering, mostGathering = time.Millisecond, 8 * time.Millisecond
	// gatherRoom is what a pipe then holds, so that its container need not wait meanwhile.
	gatherRoom = logs.LargeBuffer
)

// source is where output is read: the reading end of a pipe, or a terminal. One goroutine reads it.
type source struct {
	file *os.File
	fd   int // of file
	// ready is an epoll that reports once, each time it is asked. Go's own poller is woken by every write into a pipe,
	// also while nobody waits for it, and that is most of the cost of a container that writes a lot.
	ready *os.File
	epoll int // of ready

	at           time.Time // of the last read
	taken        int       // in bytes, since the last wait
	gathering    time.Duration
	tried, large bool // whether enlarging the pipe was tried, and whether it worked
}

// newSource takes over a file that is read without blocking.
func newSource(file *os.File) (s *source, err error) {
	s = &source{file: file}
	if err = protocol.WithDescriptors([]*os.File{file}, nil, func(fds []int) error { s.fd = fds[0]; return nil }); err != nil {
		file.Close()
		return nil, err
	}
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		file.Close()
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	err = unix.SetNonblock(s.epoll, true) // so that Go waits for it
	s.ready = os.NewFile(uintptr(s.epoll), "epoll")
	if err = errors.Join(err, s.ask(unix.EPOLL_CTL_ADD)); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// openSource opens the reading end of a named pipe.
func openSource(path string) (*source, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	// Go's poller leaves alone a file that is in blocking mode when the os.File is made.
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
	file := os.NewFile(uintptr(fd), path)
	_, failed := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK)
	if err = errors.Join(err, failed); err != nil {
		file.Close()
		return nil, err
	}
	return newSource(file)
}

func (s *source) close() {
	if s != nil {
		s.file.Close()
		s.ready.Close()
	}
}

// ask makes ready report the next time that there is something to be read, which may be now.
func (s *source) ask(operation int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(s.epoll, operation, s.fd, &event))
}

// read returns unix.EAGAIN when there is nothing for now, and 0 or another error at the end.
func (s *source) read(b []byte) (n int, err error) {
	for n, err = unix.Read(s.fd, b); err == unix.EINTR; {
		n, err = unix.Read(s.fd, b)
	}
	s.at, s.taken = time.Now(), s.taken+max(n, 0)
	return n, err
}

// wait returns when there may be something to be read, or os.ErrDeadlineExceeded after giveUp. A source that has much
// output is left to gather it, until ending is closed.
func (s *source) wait(ending <-chan struct{}) error {
	last, taken := s.at, s.taken
	s.taken = 0
	conn, err := s.ready.SyscallConn()
	if err != nil {
		return err
	}
	if err := s.ask(unix.EPOLL_CTL_MOD); err != nil {
		return err
	}
	events := make([]unix.EpollEvent, 1)
	err = conn.Read(func(epoll uintptr) bool {
		n, err := unix.EpollWait(int(epoll), events, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
	if err == nil && time.Since(last) < soon && s.enlarge() {
		s.gathering = gathering(s.gathering, taken)
		gathered := time.NewTimer(s.gathering)
		defer gathered.Stop()
		select {
		case <-gathered.C:
		case <-ending:
		}
	}
	return err
}

// gathering returns how long a source is left to gather output after it had so many bytes, and was left for that long before.
func gathering(before time.Duration, taken int) time.Duration {
	switch {
	case taken < gatherRoom/4:
		before *= 2
	case taken > gatherRoom/2:
		before /= 2
	}
	return min(max(before, leastGathering), mostGathering)
}

// giveUp ends the waiting.
func (s *source) giveUp() { s.ready.SetReadDeadline(time.Unix(1, 0)) }

// enlarge makes a pipe larger, and reports whether that worked.
func (s *source) enlarge() bool {
	if !s.tried {
		_, err := unix.FcntlInt(uintptr(s.fd), unix.F_SETPIPE_SZ, gatherRoom)
		s.tried, s.large = true, err == nil // a terminal is not a pipe
	}
	return s.large
}
