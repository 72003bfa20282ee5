package server

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// stdin is what a container reads: a named pipe, which those who attach open for writing. The container has it open for
// writing as well, so that it never reads an end, even when the shard dies, unless it is one that ends once.
type stdin struct {
	path string

	mu     sync.Mutex
	keeper *os.File // of one that ends once: a writer until then
	closed bool
}

// openStdin opens what the container gets. The named pipe exists.
func openStdin(path string, once bool) (*stdin, *os.File, error) {
	s := &stdin{path: path}
	flags := unix.O_RDWR
	if once {
		flags = unix.O_RDONLY
	}
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if once {
		if s.keeper, err = s.open(); err != nil {
			unix.Close(fd)
			return nil, nil, err
		}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		s.close()
		unix.Close(fd)
		return nil, nil, fmt.Errorf("stdin: %w", err)
	}
	return s, os.NewFile(uintptr(fd), path), nil
}

// adoptStdin returns the stdin of a container whose shard has died. One that ends once has ended with the shard.
func adoptStdin(path string, once bool) *stdin { return &stdin{path: path, closed: once} }

// open returns a writer; nil once nothing more can be written.
func (s *stdin) open() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil
	}
	fd, err := unix.Open(s.path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.ENXIO { // the container has closed it
		return nil, nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: s.path, Err: err}
	}
	return os.NewFile(uintptr(fd), s.path), nil
}

// close ends the stdin as soon as the last of those who write to it has closed it.
func (s *stdin) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.keeper != nil {
		s.keeper.Close()
		s.keeper = nil
	}
}

func stdinPath(dir string) string { return filepath.Join(dir, stdinFIFO) }
