//go:build unix

// Package files reads, writes and replaces whole files, and makes directories for them, on the paths that each pod takes.
// It makes only the system calls that this needs. The functions of package os make about ten for each file, because
// os.File finds out whether the file can be waited for.
//
// A call may block for as long as the file system does, so these functions are for files on disks, in memory and of
// control groups, not for pipes or devices. They touch nothing but the file at the path, and beside it, while it is
// replaced, one of the same name with [Unfinished].
package files

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Read is os.ReadFile. Errors are of type *fs.PathError.
func Read(path string) ([]byte, error) {
	fd, err := open(path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	content := make([]byte, 0, 512)
	for {
		// A read that returns less than there is room for need not be the last: files of the kernel end at a record.
		n, err := again(func() (int, error) { return unix.Read(fd, content[len(content):cap(content)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return content, nil
		}
		if content = content[:len(content)+n]; len(content) == cap(content) {
			content = append(content, 0)[:len(content)]
		}
	}
}

// Write is os.WriteFile: it creates a file with that mode, less the umask, or empties the one that is there, and writes
// the content to it. Errors are of type *fs.PathError.
func Write(path string, content []byte, mode fs.FileMode) error {
	return WriteThen(path, content, mode, func(int) error { return nil })
}

// WriteThen is Write, and calls then with the descriptor of the file before it closes it. An error of then is returned as
// it is.
func WriteThen(path string, content []byte, mode fs.FileMode, then func(fd int) error) error {
	return write(path, unix.O_TRUNC, content, mode, then)
}

// CreateThen is WriteThen for a file that must not exist: if it does, the error is fs.ErrExist.
func CreateThen(path string, content []byte, mode fs.FileMode, then func(fd int) error) error {
	return write(path, unix.O_EXCL, content, mode, then)
}

func write(path string, flag int, content []byte, mode fs.FileMode, then func(fd int) error) error {
	fd, err := open(path, unix.O_WRONLY|unix.O_CREAT|flag, uint32(mode.Perm()))
	if err != nil {
		return err
	}
	for len(content) > 0 && err == nil {
		var n int
		n, err = again(func() (int, error) { return unix.Write(fd, content) })
		if err == nil {
			content = content[n:]
		}
	}
	if err != nil {
		err = &fs.PathError{Op: "write", Path: path, Err: err}
	} else {
		err = then(fd)
	}
	// After EINTR the descriptor is closed as well.
	if failed := unix.Close(fd); failed != nil && failed != unix.EINTR {
		err = errors.Join(err, &fs.PathError{Op: "close", Path: path, Err: failed})
	}
	return err
}

func open(path string, flags int, mode uint32) (int, error) {
	fd, err := again(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, mode) })
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// again repeats a call that a signal has interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

// retried is again for a call that returns nothing but its error.
func retried(call func() error) error {
	_, err := again(func() (int, error) { return 0, call() })
	return err
}
